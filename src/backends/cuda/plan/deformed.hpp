#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// DeformConv (Dai et al., Deformable Convolutional Networks, 2017; with a mask: Zhu et al., Deformable ConvNets v2,
/// 2018) is a convolution of what GridSample reads. Shapes must be known; value infos of what is added are missing
/// until `infer_shapes`. True if any was replaced.
bool write_out_deform_conv(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
