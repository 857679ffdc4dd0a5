#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "plan/arrivals.hpp"
#include "plan/latency_curve.hpp"
#include "plan/slo.hpp"
#include "plan/stages.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

struct CapacityRequest {
    Slo slo;
    Arrivals arrivals; ///< at the whole service
    LatencyCurve curve;
    OuterStages stages;
    bool preprocess_of_bench = false; ///< the stage preprocess is the bench's figure, which holds decoding

    // What is decided already; the rest is searched.
    std::vector<std::int64_t> batch_sizes; ///< empty: the measured sizes and the powers of two between
    std::optional<double> max_wait_ms;
    std::optional<std::size_t> instances; ///< 1 or curve.streams
    std::optional<std::size_t> machines;

    bool full_batches = false;     ///< the server fills batches up: each costs as much as one of the largest size
    double max_utilisation = 0.95; ///< of what a machine can serve at most; more is not planned
    std::uint64_t seed = 2;        ///< of service times
};

/// Adds the stage preprocess of the curve's bench, if it measured one and no stage is named preprocess or decode.
void take_preprocess_of_bench(CapacityRequest& request);

/// One way to run the service, and what the simulation says of it.
struct Configuration {
    std::int64_t max_batch = 1;
    double max_wait_ms = 0;
    std::size_t instances = 1; ///< a machine
    std::size_t machines = 1;
    double slo_ms = 0;      ///< the quantile of the objective
    double utilisation = 0; ///< of what the machines can serve at most
};

/// A stage of the latency budget, in ms. Percentiles of stages do not add up to that of the sum; `at_slo` does.
struct StageBudget {
    std::string name;
    double mean = 0;
    double median = 0;
    double p99 = 0;
    double at_slo = 0; ///< mean over the requests whose total is near the objective's quantile
};

struct CapacityPlan {
    Configuration choice;
    bool meets = false; ///< the objective
    double mean_ms = 0, median_ms = 0, p90_ms = 0, p95_ms = 0, p99_ms = 0, p999_ms = 0;
    double slo_half_width_ms = 0; ///< 95 % of the simulated quantile, from ten parts of the run, which is 500,000
                                  ///< requests at most
    double mean_batch = 0;
    double machine_capacity = 0; ///< requests a second that one machine can serve at most
    /// The objective's quantile when one machine fails; nothing if there is only one, or the others are overloaded.
    std::optional<double> without_one_ms;
    std::vector<StageBudget> stages;
    std::vector<Configuration> by_batch; ///< the fewest machines for each largest batch that can meet the objective
    double floor_ms = 0;                 ///< the quantile when requests are so few that nobody waits
    std::size_t simulated = 0;           ///< requests behind the figures of the choice
};

/// The fewest machines with which the objective holds (to one in 256: a simulation is not more exact), and among those
/// the configuration of least latency; with `machines` given, the configuration of least latency on them. Requests are
/// spread over machines at random.
/// Where nothing meets the objective, `meets` is false, and the choice is the best that was found, or, without
/// `machines`, what light load gives.
/// Errors: invalid_argument (a batch size or number of instances that was not measured, machines that cannot serve the
/// rate), cancelled.
Result<CapacityPlan> plan_capacity(const CapacityRequest& request, Progress& progress);

Json to_json(const CapacityPlan& plan, const CapacityRequest& request);

/// The model of one machine in a configuration.
MachineModel machine_model(const CapacityRequest& request, std::int64_t max_batch, std::size_t instances,
                           double max_wait_ms);

} // namespace lathe
