#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// The nodes of a graph that compute one value.
struct Part {
    Model model;                     ///< without declared inputs; its only output is the value
    std::vector<std::string> inputs; ///< values that it reads and does not compute, each once
};

/// What computes `target` from the values in `stops`, the graph's inputs and its constants. What `target` itself is in
/// `stops` does not matter. Errors: not_found if no node computes it.
Result<Part> cut_part(const Model& model, const std::string& target, const std::unordered_set<std::string>& stops);

} // namespace lathe
