#pragma once

#include "autocast/decide.hpp"
#include "graph/graph.hpp"
#include "passes/write_casts.hpp"

namespace lathe {

/// Carries a plan out, as write_casts does. Errors: its own; invalid_argument (another 16-bit type for inputs and
/// outputs); out_of_range, where an input's or output's values do not fit the type asked for.
Result<CastModel> insert_casts(const Model& model, const AutocastPlan& plan, const AutocastOptions& options);

} // namespace lathe
