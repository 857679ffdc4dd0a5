#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Resize in forms that have no kernel (antialias, exclude_outside, cropping, half_pixel_symmetric, kept aspect ratio,
/// axes, sizes that are cut, any dimensions) is a product with a matrix of weights for each axis, which are constants
/// once sizes are known. Shapes must be known; value infos of what is added are missing until `infer_shapes`. True if
/// any was replaced.
bool write_out_resize(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
