#pragma once
// Control flow that is decided once shapes are known is written out: a plan has no branches and no loops.

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// Nodes that a network may have once its loops are written out; longer loops are refused.
inline constexpr std::size_t most_written_nodes = 8192;

/// The model's metadata names with it the last If of which both branches are computed.
inline constexpr std::string_view both_branches_key = "lathe.both_branches";

/// What is done with an If whose condition only running tells.
enum class OpenConditions {
    left,     ///< nothing: its condition may still become a constant
    selected, ///< both branches are computed and their results chosen from, where shapes are equal
};

/// Replaces in the main graph: If by the branch that a constant condition takes, or by both and Where; Loop whose
/// number of rounds is constant and that does not end before, and Scan whose length is known, by their rounds one
/// behind the other. One level: what is nested comes out in the next call. Shapes and value infos of what is added are
/// missing until `infer_shapes`. True if any was replaced. Errors: those of sorting the graph.
Result<bool> write_out_control_flow(Model& model, OpenConditions open);

/// Why this If, Loop or Scan (or other node with a body) is not written out; "" if it is.
std::string control_flow_refusal(const Model& model, const Node& node);

/// Large initializers of bodies become initializers of the graph, so that they are packed and stored as others are.
void lift_large_constants(Graph& graph, std::size_t bytes);

} // namespace lathe::cuda
