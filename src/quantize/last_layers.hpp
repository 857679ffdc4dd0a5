#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// Positions of the heavy nodes of these labels that no other one of them comes after, in graph order: what they err
/// goes into the answer as it is.
std::vector<std::size_t> last_layers(const Graph& graph, const std::unordered_set<std::string>& labels);

} // namespace lathe
