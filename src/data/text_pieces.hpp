#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// One code point of UTF-8 text at `at`, which moves behind it. A byte that begins none is U+FFFD.
char32_t next_code_point(std::string_view text, std::size_t& at);
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
