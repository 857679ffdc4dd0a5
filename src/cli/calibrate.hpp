#pragma once

#include "api/calibrate.hpp"
#include "cli/context.hpp"

namespace lathe::cli {

/// lathe::calibrate_model with the context's progress; says what was reused.
Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, const Context& context);

} // namespace lathe::cli
