#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "lathe/result.hpp"

namespace lathe {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// 0 to 15; -1 for what is no hexadecimal digit.
int hex_value(char c);

/// The words of the graph text (graph/text.hpp): each function skips white space and comments in front of what it
/// reads. Errors: parse_error, with line and column.
class TextScanner {
public:
    explicit TextScanner(std::string_view text) : text_(text) {}

    /// An error at the present place.
    Error wrong(std::string message) const;

    bool at_end();
    /// The next character, which is not consumed; 0 at the end.
    char peek();
    bool next_is(std::string_view token);
    /// Of integers: digits and '-' alone.
    bool next_is_integer();
    /// nan, inf or -inf.
    bool next_is_float_word();

    /// Consumes the token, or the word (with no further letter behind it), if it is the next.
    bool accept(std::string_view token);
    bool accept_word(std::string_view word);
    Result<void> expect(std::string_view token);

    Result<std::string> string();     ///< quoted
    Result<std::string> identifier(); ///< quoted or not
    std::string_view number_text();   ///< whatever stands where a number is to stand
    template <class T>
    Result<T> number() {
        const std::string_view digits = number_text();
        T value{};
        const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (digits.empty() || status != std::errc() || end != digits.data() + digits.size()) {
            return wrong("expected a number, found '" + std::string(digits) + "'");
        }
        return value;
    }

    /// To look ahead and return.
    std::size_t position() const { return position_; }
    void back_to(std::size_t position) { position_ = position; }

private:
    void skip();

    std::string_view text_;
    std::size_t position_ = 0;
};

} // namespace lathe
