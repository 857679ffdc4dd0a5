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
    bool meets = false;      ///< the objective; otherwise `choice` is the nearest that was found
    std::string objective;   ///< its quantile: "p99", "p99.9"
    double objective_ms = 0; ///< its limit
    double rate = 0;         ///< requests a second, over all machines
    PlannedConfiguration choice;
    double mean_ms = 0, median_ms = 0, p99_ms = 0; ///< of the whole latency
    double slo_half_width_ms = 0;                  ///< 95 % of the simulated quantile
    double mean_batch = 0;
    double machine_capacity = 0;          ///< requests a second that one machine can serve at most
    std::optional<double> without_one_ms; ///< the objective's quantile when one machine fails; absent: overloaded
    double floor_ms = 0;                  ///< the objective's quantile when nobody waits
    std::vector<PlannedStage> stages;
    std::vector<PlannedConfiguration> by_batch; ///< the fewest machines for each largest batch that meets it
    std::vector<std::string> not_measured;      ///< stages that the plan takes no time for
    std::vector<std::string> remarks;           ///< of other stages without a row, why they have none
    std::vector<std::string> warnings;          ///< what makes the plan uncertain, or why nothing meets it; sentences
    std::string document;                       ///< everything, as JSON text: what `lathe plan --json` prints
};

/// Errors: invalid_argument (no rate, an objective or rate of another form, a batch size or number of instances that
/// was not measured, machines that cannot serve the rate), not_found, parse_error, cancelled. That nothing meets the
/// objective is no error.
LATHE_API Result<PlanResult> plan(const PlanRequest& request);

/// Latencies of a load, in ms.
struct LoadLatency {
    double mean_ms = 0, median_ms = 0, p90_ms = 0, p99_ms = 0;
    double mean_batch = 0;
};

/// A load as it was served, beside what the simulation says of the same arrivals.
struct PlanTrial {
    std::size_t requests = 0;
    double seconds = 0;
    LoadLatency predicted;
    LoadLatency measured;
    bool p99_reliable = false;     ///< of enough requests
    double sender_late_p99_ms = 0; ///< how much later than planned requests were handed over; it is in both
};

struct PlanTrials {
    double rate = 0;      ///< requests a second: one machine's share
    PlanTrial from_bench; ///< predicted by the bench
    PlanTrial from_load;  ///< predicted by what the first load showed
    /// As JSON text: the member "tried" of the plan's document, which PlanRequest::served takes in a file.
    std::string document;
};

/// Serve one machine's share of a plan's `choice` here, twice, with `engine`, for `seconds` each: what `lathe plan
/// --try` does. Errors: as of plan; what loading the engine gives; verification_failed (requests failed),
/// invalid_argument (seconds; too few batches to learn from), cancelled.
LATHE_API Result<PlanTrials> try_plan(const PlanRequest& request, const PlannedConfiguration& choice,
                                      const std::filesystem::path& engine, double seconds = 10);

/// What `lathe plan --prices` does: the cheapest machines of several kinds for an objective.
struct PricePlanRequest {
    /// JSON or CSV of kinds of machine, each with its price an hour and its bench:
    /// {"currency": "USD", "machines": [{"name": "cpu-8", "per_hour": 0.34, "from": "bench.json", "subject": "int8"}]}.
    std::filesystem::path prices;
    std::string slo;  ///< as PlanRequest's, as are the next
    std::string rate; ///< must be given
    std::filesystem::path stages = {};
    std::vector<std::int64_t> batch_sizes = {};
    std::string max_wait = {};
    std::size_t instances = 0;
    double max_utilisation = 0.95;
    Progress* progress = nullptr; ///< nullptr: silent
};

/// So many machines of each kind.
struct PricedMix {
    std::vector<std::size_t> counts; ///< in the order of PricePlanResult::kinds
    double per_hour = 0;
    /// The objective's quantile at the rate, on the kind where it is longest; absent: overloaded.
    std::optional<double> slo_ms;
    double of_held = 0;  ///< the rate as a share of what the mix holds within the objective
    std::string failing; ///< the kind whose machine is missed most; the next two are without one
    std::optional<double> without_one_ms;
    double without_one_of_held = 0; ///< infinite where none is left
};

/// A kind of machine, and what one holds within the objective.
struct PricedKind {
    std::string name;
    double per_hour = 0;
    double rate_each = 0;                       ///< requests a second; 0: none
    std::optional<PlannedConfiguration> choice; ///< how it is run for that; absent: it holds none
    std::optional<std::size_t> alone;           ///< machines of this kind only; absent: not at all
    double alone_per_hour = 0;
};

struct PricePlanResult {
    std::string currency;
    std::string objective; ///< its quantile: "p99"
    double objective_ms = 0;
    double rate = 0; ///< requests a second
    std::vector<PricedKind> kinds;
    std::optional<PricedMix> cheapest;   ///< absent: no kind holds the objective at any rate
    std::optional<PricedMix> with_spare; ///< the cheapest with which it holds when any one machine fails
    std::string document;                ///< everything, as JSON text: what `lathe plan --prices --json` prints
};

/// Errors: invalid_argument (no rate, forms as of plan), not_found, parse_error naming the place in the file,
/// cancelled. That no kind holds the objective is no error.
LATHE_API Result<PricePlanResult> plan_prices(const PricePlanRequest& request);

} // namespace lathe
