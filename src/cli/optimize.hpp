#pragma once

#include "cli/context.hpp"
#include "lathe/optimize.hpp"

namespace lathe::cli {

/// The verdict of lathe optimize, its reasons, and where engine and report are.
void print_optimized(const OptimizeResult& result, const Context& context);

} // namespace lathe::cli
