#include "graph/text_scanner.hpp"

#include <algorithm>
#include <utility>

namespace lathe {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Identifiers may hold what exporters put into names; "::" ends one, so that domains can be written in front.
bool in_identifier(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.' || c == '/' ||
           c == '-' || c == ':';
}

} // namespace

int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

Error TextScanner::wrong(std::string message) const {
    const auto before = text_.substr(0, position_);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto start = before.rfind('\n');
    const std::size_t column = start == std::string_view::npos ? before.size() + 1 : before.size() - start;
    return {ErrorCode::parse_error, std::move(message),
            "line " + std::to_string(line) + ", column " + std::to_string(column),
            "see src/graph/text.hpp for the format"};
}

void TextScanner::skip() {
    while (position_ < text_.size()) {
        if (text_[position_] == '#') {
            while (position_ < text_.size() && text_[position_] != '\n')
                ++position_;
        } else if (is_space(text_[position_])) {
            ++position_;
        } else {
            return;
        }
    }
}

bool TextScanner::at_end() {
    skip();
    return position_ >= text_.size();
}

char TextScanner::peek() {
    skip();
    return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextScanner::next_is(std::string_view token) {
    skip();
    return text_.substr(position_).starts_with(token);
}

bool TextScanner::next_is_integer() {
    const std::size_t start = position_;
    const std::string_view digits = number_text();
    position_ = start;
    return std::all_of(digits.begin(), digits.end(), [](char c) { return is_digit(c) || c == '-'; });
}

bool TextScanner::next_is_float_word() {
    const std::size_t start = position_;
    const bool found = accept_word("nan") || accept_word("inf") || accept_word("-inf");
    position_ = start;
    return found;
}

bool TextScanner::accept(std::string_view token) {
    if (!next_is(token)) return false;
    position_ += token.size();
    return true;
}

bool TextScanner::accept_word(std::string_view word) {
    if (!next_is(word)) return false;
    const std::size_t behind = position_ + word.size();
    if (behind < text_.size() && in_identifier(text_[behind])) return false;
    position_ = behind;
    return true;
}

Result<void> TextScanner::expect(std::string_view token) {
    if (accept(token)) return {};
    return wrong("expected '" + std::string(token) + "'");
}

Result<std::string> TextScanner::string() {
    LATHE_CHECK(expect("\""));
    std::string result;
    while (position_ < text_.size() && text_[position_] != '"') {
        char c = text_[position_++];
        if (c == '\\') {
            if (position_ >= text_.size()) break;
            c = text_[position_++];
            if (c == 'n') c = '\n';
            if (c == 'x') {
                const int high = position_ < text_.size() ? hex_value(text_[position_]) : -1;
                const int low = position_ + 1 < text_.size() ? hex_value(text_[position_ + 1]) : -1;
                if (high < 0 || low < 0) return wrong("expected two hexadecimal digits after \\x");
                position_ += 2;
                c = static_cast<char>(high * 16 + low);
            }
        }
        result += c;
    }
    if (position_ >= text_.size()) return wrong("the string does not end");
    ++position_;
    return result;
}

Result<std::string> TextScanner::identifier() {
    if (peek() == '"') return string();
    const std::size_t start = position_;
    while (position_ < text_.size() && in_identifier(text_[position_]) && !text_.substr(position_).starts_with("::")) {
        ++position_;
    }
    // "input %x: float32": the colon before a space belongs to the statement, not to the name.
    if (position_ > start && text_[position_ - 1] == ':') --position_;
    if (position_ == start) return wrong("expected a name");
    return std::string(text_.substr(start, position_ - start));
}

std::string_view TextScanner::number_text() {
    skip();
    const std::size_t start = position_;
    while (position_ < text_.size() && (in_identifier(text_[position_]) || text_[position_] == '+'))
        ++position_;
    return text_.substr(start, position_ - start);
}

} // namespace lathe
