#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// When requests arrive at a whole service, of which a machine gets one in so many, chosen at random.
class Arrivals {
public:
    /// A Poisson process. `rate`: requests a second, over 0.
    static Arrivals poisson(double rate, std::uint64_t seed = 1);

    /// Recorded times in seconds, ascending, at least two and not all equal; run again from the start when it ends.
    /// `rate` over 0 stretches or squeezes them to that rate. Errors: invalid_argument.
    static Result<Arrivals> trace(std::vector<double> seconds, double rate = 0, std::uint64_t seed = 1);

    double rate() const { return rate_; }
    bool is_trace() const { return !trace_.empty(); }

    /// The first `count` arrivals at one of `machines` machines, in ms, ascending. The same random numbers whatever
    /// `machines` is, so that two answers differ by the machines alone.
    std::vector<double> at_one_of(std::size_t machines, std::size_t count) const;

private:
    double rate_ = 0;
    std::uint64_t seed_ = 1;
    std::vector<double> trace_; ///< ms from the first one on
    double period_ms_ = 0;
};

/// Times from a file: a JSON list of numbers, or text with one number at the start of a line (further columns after a
/// comma, semicolon, space or tab are ignored, and so is one heading line). Any order; seconds.
/// Errors: parse_error naming the line.
Result<std::vector<double>> read_arrival_times(const std::filesystem::path& file);

} // namespace lathe
