#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/cuda/device/state.hpp"
#include "backends/cuda/tuning/timing_cache.hpp"
#include "backends/cuda/tuning/whole_choice.hpp"
#include "lathe/progress.hpp"

namespace lathe::cuda {

/// A kernel that was put into the whole network in place of the one chosen alone.
struct WholeTrial {
    std::string signature, tactic;
    double ratio = 0; ///< time of the network with it to that without
    bool kept = false;
};

/// What is fastest alone need not be in a network: neighbours share the cache, and launches overlap. Puts the next best
/// kernels of the costliest operations into the network of these shapes, one operation's after another, times both in
/// turns as graphs, and keeps what makes the network faster: `state.tactics` names it first then. Stops after
/// `seconds`. Errors: cancelled; where the device's state is lost. Too little memory is told by the log, not an error.
Result<std::vector<WholeTrial>> tune_whole(EngineState& state, const std::vector<Shape>& shapes,
                                           const std::map<std::string, std::vector<Timing>>& timings, double seconds,
                                           Progress* progress);

} // namespace lathe::cuda
