#pragma once

#include "graph/graph.hpp"

namespace lathe::cuda {

/// A wide window with few results a pixel (an image out of a generator or an upscaler: 9 x 9, 3 channels) leaves most
/// of a product's columns empty. Its taps along a row become results of their own, which are added behind. Where images
/// are large enough for that pass. Shapes must be known; value infos of what is added are missing until `infer_shapes`.
/// True if any was replaced.
bool write_out_few_filters(Graph& graph);

} // namespace lathe::cuda
