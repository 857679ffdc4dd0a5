#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/time_distribution.hpp"

namespace lathe {

/// A part of a request's way beside the batcher. Times in ms.
struct Stage {
    std::string name;
    TimeDistribution time;
    /// How many requests a machine has in it at once, in the order they come; nothing: any number, so that it only
    /// delays (a network hop, a camera).
    std::optional<std::size_t> workers;
};

/// How long a batch of a size takes.
struct BatchTime {
    TimeDistribution time;  ///< all of it, ms
    double copy_in_ms = 0;  ///< of that, median
    double copy_out_ms = 0; ///< of that, median
    /// All of it where the instance did nothing for `pause_ms` before: caches are cold and cores sleep. After shorter
    /// pauses between the two, linearly. Nothing: as `time`.
    std::optional<TimeDistribution> after_pause{};
    double pause_ms = 0;
    /// All of it where the batch before had another size. Nothing: as `time`.
    std::optional<TimeDistribution> after_other_size{};

    /// A time by 64 random bits; the instance has done nothing for `idle_ms`. What a pause and a change of the size
    /// cost is added, quantile by quantile.
    double draw(double idle_ms, bool other_size, std::uint64_t random) const;
    /// The same of the means.
    double expected(double idle_ms, bool other_size) const;
};

/// One machine: requests pass the stages before, wait for a batch, are run in it, and pass the stages after.
/// A batch starts when an instance is free and either max_batch requests wait or the oldest has waited max_wait_ms; it
/// takes all that wait, at most max_batch, oldest first (what BatchingSession does with requests of one sample).
struct MachineModel {
    std::vector<Stage> before;
    std::vector<BatchTime> batches; ///< of 1, 2, ... max_batch requests; its length is the largest batch
    double max_wait_ms = 0;
    std::size_t instances = 1;
    std::vector<Stage> after;

    std::size_t max_batch() const { return batches.size(); }
    /// Requests a second that full batches, or a stage with workers, can serve at most.
    double capacity() const;
};

/// What happened to every request, in ms, in the order in which they came to the batcher.
struct Simulation {
    std::vector<std::string> names;         ///< of the columns: stages before, "queue", "copy in", "compute", ...
    std::vector<std::vector<double>> spent; ///< a column a stage
    std::vector<double> total;
    double mean_batch = 0;  ///< requests
    double utilisation = 0; ///< share of the time that the instances run
};

/// Sends arrivals (ms, ascending) through a machine that was idle before them. The first `warm_up` of 0..1 of them are
/// left out of the result. Exact for the model, without an event list: the batcher's next start follows from the next
/// arrivals and the earliest free instance.
Simulation simulate(const MachineModel& machine, const std::vector<double>& arrivals, double warm_up = 0.05,
                    std::uint64_t seed = 2);

/// Only the totals, for searching: faster.
std::vector<double> simulate_totals(const MachineModel& machine, const std::vector<double>& arrivals,
                                    double warm_up = 0.05, std::uint64_t seed = 2);

} // namespace lathe
