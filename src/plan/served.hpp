#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "plan/simulate.hpp"
#include "plan/time_distribution.hpp"
#include "support/json.hpp"

namespace lathe {

/// A batch as it was served.
struct ServedBatch {
    std::int64_t samples = 0;
    double took_ms =
        0; ///< from when it was due and its session free: waking up, joining the inputs, running, answering
    double idle_ms = 0;        ///< how long its session had done nothing before it was due
    std::int64_t previous = 0; ///< samples of that session's batch before; 0 for its first
};

/// What serving makes of the times that a bench measured. A bench calls the engine on a thread that does nothing else;
/// in a server a thread wakes up for a request, joins inputs, answers, and shares the machine with those who send. How
/// much that costs depends on the machine, so it is learned from a load served on it.
class ServedTimes {
public:
    /// Of batches of one size.
    struct Size {
        std::size_t count = 0;
        double benched_ms = 0; ///< mean that the bench lets one expect after such pauses and sizes before
        double served_ms = 0;  ///< mean as served
        /// Quantiles of the time as served less `factor()` times the expected; the mean is 0.
        TimeDistribution::Quantiles residual_ms;

        double factor() const { return served_ms / benched_ms; }
    };

    /// Fewest batches of a size from which its own factor is taken; of fewer, that of all.
    static constexpr std::size_t enough_for_factor = 30;
    /// The same for the spread, whose tail takes more to be seen.
    static constexpr std::size_t enough_for_spread = 300;

    /// `benched`: of 1, 2, ... requests; batches of more samples and each session's first are left out.
    /// Errors: invalid_argument where too few are left to learn from.
    static Result<ServedTimes> learn(const std::vector<BatchTime>& benched, std::span<const ServedBatch> served);

    /// The times as a server has them.
    void apply(std::vector<BatchTime>& times) const;

    const std::map<std::int64_t, Size>& sizes() const { return sizes_; }
    const Size& all() const { return all_; }

    Json json() const;
    /// Errors: parse_error, naming the field.
    static Result<ServedTimes> read(const Json& document, const std::string& where);

private:
    std::map<std::int64_t, Size> sizes_;
    Size all_;
};

} // namespace lathe
