#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Det of matrices of up to 4 x 4 is a sum of products. Shapes must be known; value infos of what is added are missing
/// until `infer_shapes`. True if any was replaced.
bool write_out_determinants(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
