#pragma once

#include <vector>

#include "cli/context.hpp"
#include "mix/search.hpp"
#include "support/json.hpp"

namespace lathe::cli {

/// A line about a trial that has just been made; `is_best`: of all so far.
void print_trial(const Trial& trial, bool is_best, const SearchOptions& options, const Context& context);

/// The Pareto front, the layers that are not in INT8, the saved engine's times and the judgement, from the document
/// that `lathe tune` writes about these trials.
void print_mix(const Json& document, const std::vector<Trial>& trials, const SearchOptions& options,
               const Context& context);

} // namespace lathe::cli
