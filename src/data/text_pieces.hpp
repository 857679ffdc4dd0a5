#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Where the text stops being UTF-8 as RFC 3629 has it (no overlong forms, no surrogates, nothing beyond U+10FFFF): the
/// place of the first byte of a sequence that is none. Nothing where all is UTF-8.
std::optional<std::size_t> first_not_utf8(std::string_view text);
/// parse_error for such a byte. `where` names the text; `from` is what its first byte is counted as.
Error not_utf8(std::string_view text, std::size_t at, const std::string& where, std::size_t from = 1);

/// One code point of UTF-8 text at `at`, which moves behind it. A byte that begins none is U+FFFD.
char32_t next_code_point(std::string_view text, std::size_t& at);
/// All of a text's code points.
std::u32string code_points(std::string_view text);
/// Appends the code point as UTF-8.
void append_utf8(char32_t code, std::string& out);

/// What Python's str.split() separates at.
bool is_unicode_space(char32_t code);
/// Its lower-case form, one code point.
char32_t to_unicode_lower(char32_t code);

/// A stretch of a text, in bytes.
struct TextPiece {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool operator==(const TextPiece&) const = default;
};

/// Where BERT's tokenizer cuts before it looks into its vocabulary: at white space, and around every punctuation mark
/// (all ASCII marks; marks and symbols beyond) and every ideograph. No piece holds white space.
std::vector<TextPiece> text_pieces(std::string_view text);

} // namespace lathe
