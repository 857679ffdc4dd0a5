#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device/state.hpp"
#include "backends/cuda/tuning/network_check.hpp"
#include "lathe/progress.hpp"

namespace lathe::cuda {

struct NetworkCheck {
    std::optional<NetworkFault> fault; ///< nothing: all is right
    /// Where outputs hold infinities or NaN although no kernel is at fault: which outputs, and what made the first of
    /// them. Random inputs are not a user's, but what passes a type's range on them may do so on others.
    std::string not_finite;
};

/// Runs the network of these shapes on random inputs as sessions run it: with the kernels chosen, recorded as a graph,
/// in an arena of its memory plan and a workspace of its size, both full of NaN before. Operation after operation, the
/// graph of all up to it is run, and its result compared with what its reference kernel makes of the same operands; all
/// other values that are still needed must be what they were, and nothing may be written behind the arena or the
/// workspace. Then the whole is run up to 100 times, for a second: all must give the same. The fault is that of the
/// first operation that is wrong; of a result that changes from run to run the first one that does.
/// Errors: out_of_memory (it takes two arenas), cancelled, and where the device's state is lost.
Result<NetworkCheck> check_network(EngineState& state, const std::vector<Shape>& shapes, Progress* progress);

/// Stands for a plan's operations, their kernels and the places of their values in memory: for the timing cache, so
/// that a network that was right is not checked again.
std::string network_key(const DevicePlan& built);

/// The id of the reference kernel of an operation, as "reference:ID". Errors: internal, if there is none.
Result<std::string> reference_tactic(const FusedOp& op, const Plan& plan, const Device& device);

} // namespace lathe::cuda
