#pragma once

#include "graph/graph.hpp"

namespace lathe::cuda {

/// MaxPool's indices become ArgMax over the windows, and MaxUnpool a scatter into zeros (SegNet). Shapes must be known;
/// value infos of what is added are missing until `infer_shapes`. True if any was replaced.
bool write_out_pool_indices(Graph& graph);

} // namespace lathe::cuda
