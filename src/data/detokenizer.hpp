#pragma once

// Tokens back into text, one at a time, as a text that is being continued gets them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lathe/result.hpp"

namespace lathe {

/// What a model's tokens say. Immutable; shared by the texts that are written with it.
class Detokenizer {
public:
    /// From a model's metadata `lathe.tokenizer`, whose "huggingface" is a tokenizer.json. Errors: parse_error;
    /// unsupported (other decoders than ByteLevel and WordPiece; a tokenizer without that part).
    static Result<std::shared_ptr<const Detokenizer>> of(std::string_view description);

private:
    friend class TextWriter;
    enum class Kind { byte_level, word_piece };

    Kind kind_ = Kind::byte_level;
    std::unordered_map<std::int64_t, std::string> pieces_; ///< byte_level: bytes; word_piece: as the vocabulary has it
    std::unordered_map<std::int64_t, bool> special_;       ///< says nothing in a text
    std::string prefix_;                                   ///< word_piece: of a token that goes on the word before
    bool cleanup_ = false;                                 ///< word_piece: no space in front of marks
};

/// One text. What its pieces say one behind the other is what Hugging Face's decode(ids, skip_special_tokens=True)
/// gives for all of them, without what it gives for those `before`.
class TextWriter {
public:
    /// `before`: tokens of the text that is continued, which are not said again.
    explicit TextWriter(std::shared_ptr<const Detokenizer> detokenizer, std::span<const std::int64_t> before = {});

    /// What the text is longer by with this token: whole characters, so that it may be nothing, and what was held back
    /// before. A token that the vocabulary lacks says nothing.
    std::string next(std::int64_t token);
    /// What is held back at the end: a character that was not finished is U+FFFD.
    std::string end();

private:
    std::shared_ptr<const Detokenizer> detokenizer_;
    std::string held_;   ///< the beginning of a character
    bool begun_ = false; ///< a token was said
};

} // namespace lathe
