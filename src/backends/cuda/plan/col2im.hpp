#pragma once

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Col2Im of known sizes adds blocks up as a transposed convolution in groups does whose filters are ones at one place
/// each. Shapes must be known; value infos of what is added are missing until `infer_shapes`. True if any was replaced.
bool write_out_col2im(Graph& graph);

} // namespace lathe::cuda
