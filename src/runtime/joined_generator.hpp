#pragma once

// Several texts continued side by side: a token of each is one run of the decoder.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "lathe/result.hpp"
#include "runtime/generator.hpp"

namespace lathe {

/// A decoder whose engine takes several samples. Texts come and go at any time: the next run has those that are there.
/// Shorter ones are filled up in front to the longest, with keys and values of zeros that the mask hides, so that every
/// text gets the tokens that it would get alone (to the last bits of its scores: a run of several samples adds up in
/// another order). What is filled up is dropped again when the longest text ends. Keys and values are copied when texts
/// come or go, and read where the last run wrote them otherwise.
class JoinedGenerator {
public:
    /// Errors: those of Decoder::of and Prefill::of.
    static Result<std::unique_ptr<JoinedGenerator>> make(Generator::Decoding decoding,
                                                         std::optional<Generator::Prompting> prompting);
    JoinedGenerator(const JoinedGenerator&) = delete;
    JoinedGenerator& operator=(const JoinedGenerator&) = delete;
    /// No generate is under way.
    ~JoinedGenerator();

    /// Texts that share a run at most; others wait. 1: the engine takes one sample.
    static std::int64_t most_texts(const EngineInfo& decoder);

    /// As lathe::generate, of many threads at once; returns when the text is done. `check` is called by this thread
    /// while the prompt is read, and, as `take` is, by the generator's own after that, one at a time. A run that fails
    /// is the error of all texts in it.
    Result<void> generate(std::span<const std::int64_t> prompt, const GenerationLimits& limits,
                          const Sampling& sampling, const RunCheck& check, const TakeToken& take);

private:
    struct Text;

    JoinedGenerator(Reading reading, Generator::Decoding decoding, std::optional<Generator::Prompting> prompting);

    Result<void> read_prompt(Text& text, std::span<const std::int64_t> prompt);
    void work();
    void let_in();
    void drop_cancelled();
    Result<void> step();
    void take_tokens();
    void arrange();
    void finish(Text& text, Result<void> result);

    Reading reading_;
    std::vector<IoInfo> inputs_;
    std::array<Session, 2> sessions_;
    std::size_t most_;

    std::mutex prompt_mutex_; ///< of the session that reads prompts
    std::optional<Generator::Prompting> prompting_;

    std::mutex mutex_; ///< of what is below it
    std::condition_variable changed_;
    std::condition_variable done_;
    std::vector<Text*> waiting_;
    bool stop_ = false;

    // The working thread's own.
    std::vector<Text*> texts_; ///< first those whose rows past_ has; null: it ended, its row goes with the next change
    bool rearrange_ = false;   ///< texts came or went since past_ was written
    std::size_t turn_ = 0;     ///< whose session runs next
    std::int64_t length_ = 0;  ///< of the past, with what is masked
    std::vector<TensorView> past_;            ///< in the decoder's order
    std::vector<std::vector<std::byte>> own_; ///< where it lies when texts came or went
    std::optional<TensorView> logits_;
    std::vector<std::int64_t> ids_, positions_, masks_;
    std::vector<TensorView> given_;
    std::thread thread_;
};

} // namespace lathe
