#include "plan/slo.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace lathe {

namespace {

using Unit = std::pair<std::string_view, double>;

/// A number of 0 or more and one of the units after it, in the unit that has the factor 1.
template <std::size_t Count>
std::optional<double> with_unit(std::string_view text, const std::array<Unit, Count>& units) {
    double value = 0;
    const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    for (const auto& [name, factor] : units) {
        if (name == unit) return value * factor;
    }
    return std::nullopt;
}

} // namespace

std::string Slo::name() const {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "p%.10g", 100 * quantile);
    return text.data();
}

Result<double> parse_milliseconds(std::string_view text) {
    constexpr std::array<Unit, 3> units{{{"ms", 1.0}, {"us", 1e-3}, {"s", 1e3}}};
    const auto value = with_unit(text, units);
    if (value) return *value;
    if (text == "0") return 0.0;
    return Error{ErrorCode::invalid_argument, "\"" + std::string(text) + "\" is no duration", "",
                 "write a number with its unit: 20ms, 500us, 1.5s"};
}

Result<double> parse_rate(std::string_view text) {
    constexpr std::array<Unit, 4> units{{{"/s", 1.0}, {"", 1.0}, {"/min", 1.0 / 60}, {"/h", 1.0 / 3600}}};
    const auto value = with_unit(text, units);
    if (value && *value > 0) return *value;
    return Error{ErrorCode::invalid_argument, "\"" + std::string(text) + "\" is no rate", "--rate",
                 "write requests over time: 1500/s, 90000/min"};
}

Result<Slo> parse_slo(std::string_view text) {
    const Error wrong{ErrorCode::invalid_argument, "\"" + std::string(text) + "\" is no objective", "--slo",
                      "write a percentile from p50 to p99.99 and its limit: p99=20ms"};
    const std::size_t equals = text.find('=');
    if (text.empty() || text[0] != 'p' || equals == std::string_view::npos) return wrong;
    const auto percent = with_unit(text.substr(1, equals - 1), std::array<Unit, 1>{{{"", 1.0}}});
    const auto limit = parse_milliseconds(text.substr(equals + 1));
    if (!percent || *percent < 50 || *percent > 99.99 || !limit || *limit <= 0) return wrong;
    return Slo{*percent / 100, *limit};
}

} // namespace lathe
