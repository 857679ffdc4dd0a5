#pragma once

#include <cstddef>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Conv and ConvTranspose whose filters are computed (cross-correlation of two images, mixtures of experts' filters)
/// are products of patches: kernels of convolutions have constant filters. A bias that is computed is added behind.
/// The graph's inputs from `inputs` on are large constants. Shapes must be known; value infos of most that is added are
/// missing until `infer_shapes`. True if any was replaced.
bool write_out_computed_filters(Graph& graph, std::size_t inputs);

} // namespace lathe::cuda
