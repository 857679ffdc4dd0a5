#pragma once

#include "backends/cuda/plan/ir.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// The window of a Conv or pooling node over an image of dims N,C,H,W or N,C,W (which is taken as one row high).
/// unsupported for other ranks.
Result<Window> window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel);

} // namespace lathe::cuda
