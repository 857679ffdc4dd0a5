#include "support/printable.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace lathe {

namespace {

struct Character {
    char32_t code = 0;
    std::size_t bytes = 0; ///< 0: not UTF-8
};

/// The first character of `text`, which is not empty. Overlong forms, surrogates and what is above U+10FFFF are none.
Character first_of(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
    if (bytes == 0 || lead > 0xF4 || text.size() < bytes) return {};
    auto code = static_cast<char32_t>(lead & (0x7FU >> bytes));
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return {};
        code = (code << 6U) | (byte(i) & 0x3FU);
    }
    constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < least[bytes] || surrogate || code > 0x10FFFF ? Character{} : Character{code, bytes};
}

struct CodeRange {
    char32_t first;
    char32_t last;
};

constexpr std::array hidden{
    CodeRange{0x00, 0x1F},       CodeRange{0x7F, 0x9F},     CodeRange{0x061C, 0x061C}, // Arabic letter mark
    CodeRange{0x200E, 0x200F},                                                         // left-to-right, right-to-left
    CodeRange{0x2028, 0x202E},                                                         // separators, embeddings
    CodeRange{0x2060, 0x206F},                                                         // isolates, invisible operators
    CodeRange{0xFEFF, 0xFEFF},   CodeRange{0xFFF9, 0xFFFB}, // byte order mark, interlinear notes
    CodeRange{0xE0000, 0xE007F},                            // tags
};

bool is_hidden(char32_t code) {
    return std::any_of(hidden.begin(), hidden.end(),
                       [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

template <typename... Values>
void append(std::string& text, const char* format, Values... values) {
    std::array<char, 24> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, values...);
    text += buffer.data();
}

} // namespace

std::string printable(std::string_view text, bool keep_lines) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const auto [code, bytes] = first_of(text);
        if (bytes == 0) {
            append(result, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
        } else if (!is_hidden(code) || code == '\t' || (code == '\n' && keep_lines)) {
            result += text.substr(0, bytes);
        } else if (code == '\n') {
            result += "\\n";
        } else if (code < 0x80) {
            append(result, "\\x%02x", static_cast<unsigned>(code));
        } else {
            append(result, code < 0x10000 ? "\\u%04x" : "\\U%08x", static_cast<unsigned>(code));
        }
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return result;
}

std::string printable_json(std::string_view json) {
    std::string result;
    result.reserve(json.size());
    while (!json.empty()) {
        const auto [code, bytes] = first_of(json);
        const bool layout = code == '\n' || code == '\t' || code == '\r'; // within strings JSON spells these out itself
        if (bytes == 0 || layout || !is_hidden(code)) {
            result += json.substr(0, std::max<std::size_t>(bytes, 1));
        } else if (code < 0x10000) {
            append(result, "\\u%04x", static_cast<unsigned>(code));
        } else {
            const auto above = static_cast<unsigned>(code - 0x10000);
            append(result, "\\u%04x\\u%04x", 0xD800U + (above >> 10U), 0xDC00U + (above & 0x3FFU));
        }
        json.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return result;
}

} // namespace lathe
