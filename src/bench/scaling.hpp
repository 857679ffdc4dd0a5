#pragma once

#include <cstdint>
#include <vector>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

struct ScalingOptions {
    double round_s = 1;     ///< of each measurement
    std::size_t rounds = 3; ///< in turns over the numbers of devices; figures are medians over them
};

/// 1, 2, 4, ... and all of `devices`.
std::vector<std::size_t> device_counts(std::size_t devices);

/// How throughput grows with the number of devices, with inputs on the devices and copied from the host. An array of
/// {"subject", "batch", "inputs", "devices", "samples_per_second", "times_one_device" (median of the rounds' ratios),
/// "rounds": [samples a second], "per_device": [{"device", "samples_per_second", "streams"}]}.
Result<Json> measure_scaling(Subject& subject, std::int64_t batch, const ScalingOptions& options, Progress& progress);

/// "per_device" of a measurement.
Json shares_json(const Throughput& served, std::int64_t batch);

} // namespace lathe
