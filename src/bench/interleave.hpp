#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "bench/settle.hpp"
#include "bench/subject.hpp"

namespace lathe {

struct InterleaveOptions {
    BurstPlan burst;
    SteadyRule rule;
    double time_limit_s = 10;    ///< a subject: all of them together may take this times their number
    double warm_up_s = 0;        ///< least time to warm each subject up; then until steady
    std::size_t warm_bursts = 2; ///< at least, even where a fifth of the time limit is over
    /// Percentiles to tell beside those of Summary, in percent.
    std::vector<double> percentiles;
    /// Above 0: each turn of an engine has, besides, a burst of calls that come after this pause each, and one of calls
    /// that each come after a call of another batch size.
    double call_pause_ms = 0;
    /// Between turns, so that the threads of the subject before stop spinning and the clock recovers.
    double pause_ms = 5;
    /// Seconds on a clock that never goes back, and how to wait; replaced in tests.
    std::function<double()> now;
    std::function<void(double)> sleep_ms;
};

/// What the turns of one subject gave.
struct InterleavedLatency {
    Summary call_ns;
    std::vector<double> burst_medians_ns; ///< one a round; round i of two subjects ran side by side
    std::optional<double> copy_in_ns;     ///< median; nothing where it is part of the call
    std::optional<double> copy_out_ns;
    std::optional<double> device_ns;         ///< median of the kernels alone, by the device's clock
    std::map<double, double> percentiles_ns; ///< those asked for, by percent
    std::optional<Summary> paused_ns;        ///< of calls after a pause, where asked for
    std::optional<Summary> other_size_ns;    ///< of calls after one of another batch size, where asked for and possible
    bool noisy = false;                      ///< did not settle within the time limit
    std::size_t warmup_bursts = 0;
};

/// Times subjects in turns A B A B ...: first warm-up bursts of each until steady, then rounds of one burst each until
/// every subject has settled or the time is up. A subject that fails drops out with its error; the others go on.
/// Fails as a whole only when cancelled.
Result<std::vector<Result<InterleavedLatency>>> interleave(std::span<Subject* const> subjects,
                                                           const InterleaveOptions& options, Progress& progress);

} // namespace lathe
