#pragma once

#include "cli/context.hpp"
#include "lathe/tune.hpp"

namespace lathe::cli {

/// A line about a trial that has just been made; `is_best`: of all so far. `metric`: what the limit is of.
void print_trial(const TuneTrial& trial, bool is_best, const Context& context);

/// The Pareto front, the layers that are not in INT8, the saved engine's times and the judgement.
void print_mix(const TuneResult& result, const Context& context);

} // namespace lathe::cli
