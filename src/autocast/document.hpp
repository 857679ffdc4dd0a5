#pragma once

#include "autocast/decide.hpp"
#include "lathe/autocast.hpp"
#include "support/json.hpp"

namespace lathe {

/// Puts the plan into the result: every decision, what overflows and what becomes subnormal.
void tell(const AutocastPlan& plan, const AutocastOptions& options, AutocastResult& result);

/// The document of kind "autocast" of a model whose values were measured; all but the file that was written.
Json to_json(const AutocastResult& result, const AutocastOptions& options);

} // namespace lathe
