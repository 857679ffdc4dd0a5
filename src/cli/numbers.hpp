#pragma once

#include <charconv>
#include <string>

#include <CLI/CLI.hpp>

namespace lathe::cli {

/// For `check`, in place of CLI11's own, which name the largest double where they refuse.
inline CLI::Validator number_check(const char* type, const char* wanted, bool (*fits)(double)) {
    return {[=](const std::string& text) {
                double value = 0.0;
                const char* const end = text.data() + text.size();
                const auto [stopped, error] = std::from_chars(text.data(), end, value);
                const bool good = error == std::errc{} && stopped == end && fits(value);
                return good ? std::string() : "\"" + text + "\" is not a number " + wanted;
            },
            type};
}

inline CLI::Validator positive_number() {
    return number_check("POSITIVE", "above 0", [](double value) { return value > 0.0; });
}

inline CLI::Validator not_negative_number() {
    return number_check("NONNEGATIVE", "from 0 up", [](double value) { return value >= 0.0; });
}

} // namespace lathe::cli
