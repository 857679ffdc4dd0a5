#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/text_pieces.hpp"
#include "data/tokenizer.hpp"
#include "lathe/result.hpp"

namespace lathe {

struct WindowOptions {
    std::size_t max_length = 384;  ///< tokens of a window, special ones included
    std::size_t doc_stride = 128;  ///< tokens from one window's begin to the next's
    std::size_t max_question = 64; ///< tokens; longer questions are cut
};

/// A question with a stretch of its context, as the model reads it.
struct Window {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> types; ///< empty where the tokenizer gives none
    std::size_t first = 0;           ///< position of the stretch's first token
    std::vector<std::size_t> tokens; ///< for each position from `first` on, the index of the context's token
    std::vector<bool> most_context;  ///< whether that token has more context here than in any other window
};

/// A context's tokens, each with the piece of the text that it comes from.
struct ContextTokens {
    std::vector<std::int64_t> ids;
    std::vector<TextPiece> pieces; ///< one a token, in bytes of the context
};

/// Cuts questions and contexts as the BERT authors' run_squad.py does (sliding windows, Devlin et al. 2019), with the
/// model's own tokenizer: a context is tokenised piece by piece (text_pieces), so that a token is known by its piece. A
/// word whose pieces give other tokens than the word (the tokenizer cuts it elsewhere) is one piece.
class WindowMaker {
public:
    /// Errors: unsupported, where the tokenizer joins no pairs or does not keep pieces apart; invalid_argument for
    /// options that contradict each other.
    static Result<WindowMaker> make(Tokenizer& tokenizer, const WindowOptions& options);

    /// Errors: unsupported, where the tokens of the whole text are not those of its words.
    Result<ContextTokens> tokenize(const std::string& context);
    /// At least one window. Errors: out_of_range, where question and special tokens leave no room.
    Result<std::vector<Window>> windows(const std::string& question, const ContextTokens& context);

private:
    WindowMaker(Tokenizer& tokenizer, const WindowOptions& options) : tokenizer_(&tokenizer), options_(options) {}
    Result<void> learn_frame();
    Result<std::vector<std::vector<std::int64_t>>> encode(std::span<const std::string> texts);

    Tokenizer* tokenizer_;
    WindowOptions options_;
    std::size_t head_ = 0; ///< special tokens before and after a single text
    std::size_t tail_ = 0;
    std::vector<std::int64_t> before_; ///< of a pair: before the first text, between the two, after the second
    std::vector<std::int64_t> between_;
    std::vector<std::int64_t> after_;
    std::vector<std::int64_t> types_; ///< of: before, first text, between, second text, after; empty without types
};

} // namespace lathe
