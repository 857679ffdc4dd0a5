#include "data/text_pieces.hpp"

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
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

std::optional<std::size_t> first_not_utf8(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (std::size_t at = 0; at < text.size();) {
        const unsigned first = byte(at);
        if (first < 0x80) {
            ++at;
            continue;
        }
        const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || text.size() - at <= more) return at;
        // Only the second byte can make an overlong form (E0, F0), a surrogate (ED) or too large a code point (F4).
        const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (byte(at + 1) < least || byte(at + 1) > most) return at;
        for (std::size_t i = 2; i <= more; ++i) {
            if ((byte(at + i) & 0xC0U) != 0x80U) return at;
        }
        at += more + 1;
    }
    return std::nullopt;
}

Error not_utf8(std::string_view text, std::size_t at, const std::string& where, std::size_t from) {
    char value[8];
    std::snprintf(value, sizeof value, "0x%02X", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
    return {ErrorCode::parse_error,
            "the text is not UTF-8: " + std::string(value) + " at byte " + std::to_string(from + at), where,
            "convert it to UTF-8, for example with iconv -f LATIN1 -t UTF-8"};
}

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

std::u32string code_points(std::string_view text) {
    std::u32string points;
    for (std::size_t at = 0; at < text.size();)
        points.push_back(next_code_point(text, at));
    return points;
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
