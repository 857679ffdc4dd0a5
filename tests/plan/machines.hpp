#pragma once

#include <algorithm>
#include <vector>

#include "plan/arrivals.hpp"
#include "plan/simulate.hpp"
#include "support/json.hpp"

namespace lathe::test {

/// A machine whose batches of every size up to `max_batch` take a time of one distribution.
inline MachineModel machine(const TimeDistribution& time, std::size_t max_batch = 1, std::size_t instances = 1,
                            double max_wait_ms = 0) {
    MachineModel model;
    model.batches.assign(max_batch, BatchTime{time});
    model.max_wait_ms = max_wait_ms;
    model.instances = instances;
    return model;
}

inline double quantile_of(std::vector<double> values, double q) {
    std::ranges::sort(values);
    return values.at(static_cast<std::size_t>(q * static_cast<double>(values.size() - 1)));
}

inline double mean_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

/// A column of a simulation by its name.
inline const std::vector<double>& column(const Simulation& simulation, const std::string& name) {
    const auto found = std::ranges::find(simulation.names, name);
    return simulation.spent.at(static_cast<std::size_t>(found - simulation.names.begin()));
}

/// What `lathe bench` writes for one engine: batches with median latencies, spread by a few percent.
inline Json bench_document(const std::vector<std::pair<int, double>>& latencies) {
    Json document{{"kind", "bench"}, {"version", 1}};
    document["subjects"] = {{{"name", "torch"}, {"kind", "pytorch"}, {"precision", "fp32"}, {"file", ""}},
                            {{"name", "int8"}, {"kind", "engine"}, {"precision", "int8"}, {"file", "int8.engine"}}};
    document["latency"] = Json::array();
    document["throughput"] = Json::array();
    for (const auto& [batch, ms] : latencies) {
        for (const char* name : {"torch", "int8"}) {
            const double m = name[0] == 't' ? 10 * ms : ms;
            document["latency"].push_back({{"subject", name},
                                           {"batch", batch},
                                           {"median_ms", m},
                                           {"mean_ms", 1.01 * m},
                                           {"p90_ms", 1.03 * m},
                                           {"p95_ms", 1.05 * m},
                                           {"p99_ms", 1.10 * m},
                                           {"min_ms", 0.97 * m},
                                           {"max_ms", 1.40 * m},
                                           {"count", 1000},
                                           {"noisy", false},
                                           {"copy_in_ms", nullptr},
                                           {"copy_out_ms", nullptr},
                                           {"preprocess_ms", nullptr}});
        }
    }
    return document;
}

} // namespace lathe::test
