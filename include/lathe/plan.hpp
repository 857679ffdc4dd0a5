#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe plan` does: from measured latencies to the machines, batches and waiting time for an objective.
struct PlanRequest {
    std::filesystem::path bench; ///< JSON of `lathe bench` at several batch sizes
    std::string slo;             ///< of the whole latency: "p99=20ms", "p99.9=1s"
    /// Requests of one sample each, over all machines: "1500/s", "90000/min". With a trace: stretch it to this rate.
    std::string rate = {};
    std::filesystem::path trace = {};           ///< arrival times in seconds; empty: a Poisson process
    std::string subject = {};                   ///< whose latencies; empty: the bench's first engine
    std::filesystem::path served = {};          ///< JSON of an earlier `lathe plan --try`
    std::filesystem::path stages = {};          ///< JSON of what requests pass outside the engine
    std::vector<std::int64_t> batch_sizes = {}; ///< only these largest batches; empty: all up to the measured
    std::string max_wait = {};                  ///< of the oldest request, for others: "2ms"; empty: searched
    std::size_t instances = 0;                  ///< sessions a machine: 1, or the bench's streams; 0: searched
    std::size_t machines = 0;                   ///< what these can do, instead of the fewest; 0: the fewest
    double max_utilisation = 0.95;              ///< share of its capacity to load a machine with
    Progress* progress = nullptr;               ///< nullptr: silent
};

/// One way to run the service.
struct PlannedConfiguration {
    std::int64_t max_batch = 1;
    double max_wait_ms = 0;
    std::size_t instances = 1; ///< a machine
    std::size_t machines = 1;
    double slo_ms = 0;      ///< the quantile of the objective
    double utilisation = 0; ///< share of what the machines can serve at most
};

/// A stage of the latency budget, in ms. Percentiles of stages do not add up; `at_slo_ms` does.
struct PlannedStage {
    std::string name;
    double mean_ms = 0;
    double median_ms = 0;
    double p99_ms = 0;
    double at_slo_ms = 0; ///< mean over the requests whose total is near the objective's quantile
};

struct PlanResult {
    bool meets = false; ///< the objective; otherwise `choice` is the nearest that was found
    PlannedConfiguration choice;
    double mean_ms = 0, median_ms = 0, p99_ms = 0; ///< of the whole latency
    double mean_batch = 0;
    double machine_capacity = 0;          ///< requests a second that one machine can serve at most
    std::optional<double> without_one_ms; ///< the objective's quantile when one machine fails; absent: overloaded
    double floor_ms = 0;                  ///< the objective's quantile when nobody waits
    std::vector<PlannedStage> stages;
    std::vector<PlannedConfiguration> by_batch; ///< the fewest machines for each largest batch that meets it
    std::vector<std::string> not_measured;      ///< stages that the plan takes no time for
    std::string document;                       ///< everything, as JSON text: what `lathe plan --json` prints
};

/// Errors: invalid_argument (no rate, an objective or rate of another form, a batch size or number of instances that
/// was not measured, machines that cannot serve the rate), not_found, parse_error, cancelled. That nothing meets the
/// objective is no error.
LATHE_API Result<PlanResult> plan(const PlanRequest& request);

} // namespace lathe
