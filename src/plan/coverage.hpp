#pragma once

#include <string>
#include <vector>

#include "plan/capacity.hpp"
#include "support/json.hpp"

namespace lathe {

/// What of a request's usual way (decode, preprocess, copy in, queue, compute, copy out, postprocess) a plan has no
/// figures for.
struct StageCoverage {
    std::vector<std::string> missing; ///< neither measured by the bench nor given: the plan takes no time for them
    std::vector<std::string> facts;   ///< of the others without a row of their own, why they have none; sentences
};

StageCoverage coverage_of(const CapacityPlan& plan, const CapacityRequest& request);

/// {"not_measured": [names], "remarks": [sentences]}
Json to_json(const StageCoverage& coverage);

} // namespace lathe
