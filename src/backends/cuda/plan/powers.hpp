#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Writes LpNormalization, LpPool and GlobalLpPool of float32 as powers, sums or means, and roots, which have GPU
/// forms. Sizes must be known. True if there was one. An LpPool with ceil_mode stays, as its last windows hold fewer
/// numbers.
bool write_out_powers(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
