#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// The operations that are programs, by their names in ONNX.
const std::vector<std::string_view>& pointwise_ops();
bool is_pointwise(const Node& node);

} // namespace lathe::cuda
