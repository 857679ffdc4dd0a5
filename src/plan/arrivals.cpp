#include "plan/arrivals.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <string_view>

#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

/// In (0, 1].
double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 1) * 0x1p-53; }

Result<std::vector<double>> from_json(const Json& json, const std::string& where) {
    std::vector<double> times;
    for (const Json& value : json) {
        if (!value.is_number()) {
            return Error{ErrorCode::parse_error, "not a number: " + value.dump(), where, "a list of seconds is wanted"};
        }
        times.push_back(value.get<double>());
    }
    return times;
}

Result<std::vector<double>> from_lines(std::string_view text, const std::string& where) {
    std::vector<double> times;
    for (std::size_t line = 1; !text.empty(); ++line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view row = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        row = row.substr(0, row.find_first_of(",; \t\r"));
        if (row.empty()) continue;
        double value = 0;
        const auto [rest, failed] = std::from_chars(row.data(), row.data() + row.size(), value);
        const bool whole = failed == std::errc() && rest == row.data() + row.size() && std::isfinite(value);
        if (!whole && line == 1) continue;
        if (!whole) {
            return Error{ErrorCode::parse_error, "line " + std::to_string(line) + " does not begin with a number",
                         where, "one arrival time in seconds a line"};
        }
        times.push_back(value);
    }
    return times;
}

} // namespace

Arrivals Arrivals::poisson(double rate, std::uint64_t seed) {
    Arrivals arrivals;
    arrivals.rate_ = rate;
    arrivals.seed_ = seed;
    return arrivals;
}

Result<Arrivals> Arrivals::trace(std::vector<double> seconds, double rate, std::uint64_t seed) {
    const bool finite = std::ranges::all_of(seconds, [](double value) { return std::isfinite(value); });
    std::ranges::sort(seconds);
    if (!finite || seconds.size() < 2 || seconds.back() <= seconds.front()) {
        return Error{ErrorCode::invalid_argument, "a trace needs at least two different arrival times", "", ""};
    }
    Arrivals arrivals;
    arrivals.seed_ = seed;
    // Between the last arrival and the first one of the next round lies one mean gap.
    const double span_s = seconds.back() - seconds.front();
    const double count = static_cast<double>(seconds.size());
    const double own_rate = (count - 1) / span_s;
    arrivals.rate_ = rate > 0 ? rate : own_rate;
    const double to_ms = 1000 * own_rate / arrivals.rate_;
    for (const double time : seconds)
        arrivals.trace_.push_back((time - seconds.front()) * to_ms);
    arrivals.period_ms_ = count * 1000 / arrivals.rate_;
    return arrivals;
}

std::vector<double> Arrivals::at_one_of(std::size_t machines, std::size_t count) const {
    std::mt19937_64 random(seed_);
    std::vector<double> times;
    times.reserve(count);
    const double share = static_cast<double>(machines);
    if (!is_trace()) {
        // Thinned at random, a Poisson process stays one.
        const double gap_ms = 1000 * share / rate_;
        double now = 0;
        while (times.size() < count)
            times.push_back(now -= gap_ms * std::log(uniform(random)));
        return times;
    }
    // The number of requests that the others get in between is geometric: jump over them.
    const double log_others = machines > 1 ? std::log1p(-1 / share) : -1;
    for (double place = 0; times.size() < count; place += 1) {
        if (machines > 1) place += std::floor(std::log(uniform(random)) / log_others);
        const double round = std::floor(place / static_cast<double>(trace_.size()));
        const double within = place - round * static_cast<double>(trace_.size());
        times.push_back(round * period_ms_ + trace_[static_cast<std::size_t>(within)]);
    }
    return times;
}

Result<std::vector<double>> read_arrival_times(const std::filesystem::path& file) {
    LATHE_TRY(const std::string text, read_text_file(file));
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start != std::string::npos && text[start] == '[') {
        LATHE_TRY(const Json json, parse_json(text, file.string()));
        return from_json(json, file.string());
    }
    return from_lines(text, file.string());
}

} // namespace lathe
