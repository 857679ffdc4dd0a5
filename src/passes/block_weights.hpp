#pragma once

#include <cstddef>

#include "graph/graph.hpp"

namespace lathe {

/// Constants that DequantizeLinear reads with a scale for each block (opset 21), or of four bits, become what it gives,
/// in the type of the scales: no kernel for NVIDIA's GPUs here multiplies by them as they are. How many. The main
/// graph's initializers.
std::size_t write_block_weights_as_floats(Graph& graph);

} // namespace lathe
