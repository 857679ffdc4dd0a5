#pragma once

#include "graph/graph.hpp"

namespace lathe::cuda {

/// LRN (Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural Networks, 2012, 3.3) becomes a 1x1
/// convolution of squares and what is computed number by number. Shapes must be known; value infos of what is added are
/// missing until `infer_shapes`. True if any was replaced.
bool write_out_response_normalization(Graph& graph);

} // namespace lathe::cuda
