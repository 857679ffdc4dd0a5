#pragma once

#include <cstdint>
#include <functional>

#include "graph/graph.hpp"

namespace lathe {

/// Resize as a product with a matrix of weights for each axis, which are constants once sizes are known. Sizes along
/// those axes must be known; value infos of what is added are missing until `infer_shapes`. True if any was replaced.
/// `wanted`: which; by default those beyond what most libraries have a kernel for: antialias, exclude_outside,
/// cropping, half_pixel_symmetric, kept aspect ratio, axes, sizes that are cut, other dimensions than images and
/// volumes. Source: ONNX's operator specification; the cubic is Keys' (1981).
bool write_out_resize(Graph& graph, std::int64_t opset, const std::function<bool(const Node&)>& wanted = {});

} // namespace lathe
