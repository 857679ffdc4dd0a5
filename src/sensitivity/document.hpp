#pragma once

#include "sensitivity/advice.hpp"
#include "sensitivity/measure.hpp"
#include "support/json.hpp"

namespace lathe {

/// What the measurement found, as the result document has it (kind "sensitivity"): counts, "everything", "layers" with
/// the most harmful first and those that stay float last, "outstanding" and "advice". The caller adds where model and
/// data came from.
Json to_json(const Sensitivity& sensitivity, DamageMetric metric);

} // namespace lathe
