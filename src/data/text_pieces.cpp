#include "data/text_pieces.hpp"

#include <algorithm>
#include <array>
#include <clocale>
#include <cwctype>
#include <locale.h>
#include <string>
#include <utility>

#include "data/unicode_tables.hpp"

namespace lathe {

namespace {

/// Character classes of Unicode, whatever locale the process runs in.
locale_t unicode() {
    static const locale_t locale = [] {
        locale_t made = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
        return made != nullptr ? made : ::newlocale(LC_CTYPE_MASK, "C", nullptr);
    }();
    return locale;
}

bool within(char32_t code, const auto& ranges) {
    return std::ranges::any_of(ranges,
                               [code](const auto& range) { return range.first <= code && code <= range.second; });
}

using CodeRange = std::pair<char32_t, char32_t>;

/// As BERT's reference tokenizer lists them.
constexpr std::array<CodeRange, 8> ideographs{{{0x4E00, 0x9FFF},
                                               {0x3400, 0x4DBF},
                                               {0x20000, 0x2A6DF},
                                               {0x2A700, 0x2B73F},
                                               {0x2B740, 0x2B81F},
                                               {0x2B820, 0x2CEAF},
                                               {0xF900, 0xFAFF},
                                               {0x2F800, 0x2FA1F}}};

/// White space beyond ASCII (Unicode's White_Space, and U+001C to U+001F, which Python takes too).
constexpr std::array<CodeRange, 10> spaces{{{0x09, 0x0D},
                                            {0x1C, 0x20},
                                            {0x85, 0x85},
                                            {0xA0, 0xA0},
                                            {0x1680, 0x1680},
                                            {0x2000, 0x200A},
                                            {0x2028, 0x2029},
                                            {0x202F, 0x202F},
                                            {0x205F, 0x205F},
                                            {0x3000, 0x3000}}};

bool stands_alone(char32_t code) {
    if (within(code, ideographs)) return true;
    if (code < 0x80) return code > 0x20 && code < 0x7F && !is_unicode_alphanumeric(code);
    return ::iswpunct_l(static_cast<wint_t>(code), unicode()) != 0;
}

} // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) {
    constexpr char32_t replacement = 0xFFFD;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(at++);
    if (first < 0x80) return first;
    const std::size_t more = first >= 0xF0 && first < 0xF8 ? 3 : first >= 0xE0 ? 2 : first >= 0xC2 ? 1 : 0;
    if (more == 0 || first >= 0xF8 || at + more > text.size()) return replacement;
    char32_t code = first & (0x3FU >> more);
    for (std::size_t i = 0; i < more; ++i) {
        if ((byte(at + i) & 0xC0U) != 0x80U) return replacement;
        code = code << 6 | (byte(at + i) & 0x3FU);
    }
    at += more;
    return code;
}

void append_utf8(char32_t code, std::string& out) {
    const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6);
        put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

bool is_unicode_space(char32_t code) { return within(code, spaces); }

char32_t to_unicode_lower(char32_t code) {
    return static_cast<char32_t>(::towlower_l(static_cast<wint_t>(code), unicode()));
}

std::vector<TextPiece> text_pieces(std::string_view text) {
    std::vector<TextPiece> pieces;
    bool inside = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const char32_t code = next_code_point(text, at);
        if (is_unicode_space(code)) {
            inside = false;
        } else if (stands_alone(code)) {
            pieces.push_back({begin, at});
            inside = false;
        } else if (inside) {
            pieces.back().end = at;
        } else {
            pieces.push_back({begin, at});
            inside = true;
        }
    }
    return pieces;
}

} // namespace lathe
