#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// What stands in the place of a ReduceL1, ReduceSumSquare, ReduceLogSum or ReduceLogSumExp, made of sums; nothing for
/// another node. Axes may be an attribute, an input or all.
std::vector<Node> written_reduction(Graph& graph, const Node& node, std::int64_t opset);

/// Writes those out that are `wanted`. Value infos of what is added are missing until `infer_shapes`. True if any was
/// replaced.
bool write_out_reductions(Graph& graph, std::int64_t opset, const std::function<bool(const Node&)>& wanted);

} // namespace lathe
