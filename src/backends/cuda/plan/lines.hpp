#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Images of one dimension, [N, C, L], become images of one row, [N, C, 1, L], where convolutions make or read them and
/// what is between computes number by number, cuts, joins, pads, pools or normalises. Kernels, parts of images, and the
/// factors of normalisations then serve both. All sizes are known; `inputs` of the graph are the user's. Whether
/// anything changed.
bool write_lines_as_images(Graph& graph, std::int64_t opset, std::size_t inputs);

/// The line that a value's name says it is the image of; "" for other names.
std::string line_of(const std::string& value);

} // namespace lathe::cuda
