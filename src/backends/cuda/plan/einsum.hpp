#pragma once

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Writes Einsum out as ReduceSum, Transpose, Reshape and MatMul, where sizes are known. What it does not take (one
/// index twice in a term) stays. True if it changed anything; value infos of what is new are set.
bool write_out_einsum(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
