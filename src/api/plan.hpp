#pragma once

#include "lathe/plan.hpp"
#include "plan/capacity.hpp"

namespace lathe {

/// The request with its files read, as capacity is computed from it. Without a bench its curve is empty.
Result<CapacityRequest> capacity_request(const PlanRequest& request);

/// As callers of the library see it.
PlannedConfiguration planned(const Configuration& found);

/// The result document, but for the command and what was tried.
Json plan_document(const CapacityPlan& plan, const CapacityRequest& request);

} // namespace lathe
