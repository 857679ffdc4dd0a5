#pragma once

#include <string>
#include <vector>

#include "evaluate/output_groups.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// An output whose noise is measured, in its own scale.
struct NoisyOutput {
    std::string name;
    OutputGroups groups;
    double scale = 1; ///< of signal and noise, so that outputs weigh alike
};

/// For the record of earlier work.
Json to_json(const std::vector<NoisyOutput>& outputs);
/// `damaged` where the record is not as `to_json` writes it: no output, groups that leave channels out.
Result<std::vector<NoisyOutput>> noisy_outputs_from(const Json& json, const Error& damaged);

} // namespace lathe
