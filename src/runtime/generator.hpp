#pragma once

// Texts continued: tokens in, the next one's scores out, keys and values of all before it kept between the steps.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "runtime/reading.hpp"

namespace lathe {

/// Called before each run; its error ends what it is part of.
using RunCheck = std::function<Result<void>()>;

/// Continues one text at a time. A step reads the last step's keys and values where that session wrote them: two
/// sessions take turns, and nothing is copied between steps (on GPUs, where sessions give their outputs in the host's
/// memory, they go there and back). What a prompt does not fill is masked.
class Generator {
public:
    /// A decoder's sessions, of one engine.
    struct Decoding {
        EngineInfo info;
        Session even;
        Session odd;
    };
    /// Of an engine that reads prompts at once.
    struct Prompting {
        EngineInfo info;
        Session session;
    };

    /// Without `prompting` a prompt is read a token at a time. Errors: those of Decoder::of and Prefill::of.
    static Result<Generator> make(Decoding decoding, std::optional<Prompting> prompting);

    /// How many tokens can follow a prompt of so many; less than 1 where it is too long by itself.
    std::int64_t most_after(std::int64_t prompt) const { return reading_.most_after(prompt); }
    const Reading& reading() const { return reading_; }

    /// Forgets the last text and reads this one. Returns the scores of the token that follows, one a token of the
    /// vocabulary, valid until the next call. What is longer than the prompt's engine takes, the decoder reads.
    /// Errors: invalid_argument (no tokens, one that is not in the vocabulary), out_of_range (too long); those of a
    /// run.
    Result<std::span<const float>> begin(std::span<const std::int64_t> prompt, const RunCheck& check = {});
    /// Reads one more token. Errors: as begin.
    Result<std::span<const float>> next(std::int64_t token);

private:
    Generator(Reading reading, Decoding decoding, std::optional<Prompting> prompting);

    Result<void> read_at_once(std::span<const std::int64_t> tokens);
    void start_empty();
    Result<std::span<const float>> scores() const;

    Reading reading_;
    std::array<Session, 2> sessions_;
    std::vector<IoInfo> inputs_;
    std::optional<Prompting> prompting_;

    std::size_t turn_ = 0;             ///< whose session runs next
    std::int64_t length_ = 0;          ///< of the past, with what is masked
    std::int64_t read_ = 0;            ///< tokens
    std::vector<TensorView> past_;     ///< in the decoder's order; lie in the session that ran last
    std::vector<std::int64_t> mask_;   ///< one a place of the past, and room for the token that is read
    std::vector<std::byte> zeros_;     ///< the past of a text that begins
    std::optional<TensorView> logits_; ///< of the last run
    std::vector<TensorView> given_;    ///< a run's inputs
    std::int64_t token_ = 0;
    std::int64_t position_ = 0;
};

/// What the engine for prompts made of one. Views lie in its session, until its next run.
struct PromptRead {
    std::vector<TensorView> past; ///< in the decoder's order
    TensorView logits;
    std::vector<std::int64_t> mask; ///< one a place of the past
};
/// Reads tokens at once, as many as the engine takes at most. Errors: those of a run.
Result<PromptRead> read_prompt(const Reading& reading, Generator::Prompting& prompting,
                               std::span<const std::int64_t> tokens);
/// The scores of the token that follows, of one of the texts that a run had. Errors: internal (there are none).
Result<std::span<const float>> last_scores(const TensorView& logits, std::size_t text);

/// How the next token is chosen by its scores.
struct Sampling {
    float temperature = 0;  ///< scores are divided by it; 0: the likeliest token
    std::size_t top_k = 0;  ///< of the likeliest so many; 0: of all
    std::uint64_t seed = 0; ///< the same seed, scores and settings choose the same tokens
};

/// Chooses tokens.
class TokenChoice {
public:
    explicit TokenChoice(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {}
    /// The likeliest, of equal ones the first; or one drawn by softmax(scores / temperature) over the top_k. Errors:
    /// internal (scores that are not finite numbers, minus infinity aside).
    Result<std::int64_t> choose(std::span<const float> scores);

private:
    Sampling sampling_;
    std::mt19937_64 random_;
    std::vector<std::size_t> order_;
    std::vector<double> weights_;
};

struct GenerationLimits {
    std::int64_t most = 16;          ///< tokens
    std::optional<std::int64_t> end; ///< the token that ends a text; it is given, too
};

/// Gets each token as soon as it is chosen; `last` with the last one. Its error ends the generation.
using TakeToken = std::function<Result<void>(std::int64_t token, bool last)>;

/// Continues `prompt`. Errors: out_of_range (prompt and `most` tokens are more than the engine takes: told before
/// anything runs); those of Generator, `check` and `take`.
Result<void> generate(Generator& generator, std::span<const std::int64_t> prompt, const GenerationLimits& limits,
                      const Sampling& sampling, const RunCheck& check, const TakeToken& take);

} // namespace lathe
