#pragma once

#include <map>
#include <string>

#include "graph/graph.hpp"
#include "lathe/engine.hpp"

namespace lathe::openvino {

/// Of a model with an If: axes of inputs that a range leaves one size get that size, which may answer what it asks.
void fix_sizes(Graph& graph, const std::map<std::string, ShapeRange>& shapes);

/// Every If whose condition the sizes of inputs answer becomes the branch that it takes. OpenVINO keeps it, and refuses
/// what reads it where the branches differ in their number of dimensions. Without an If the model stays as it is.
/// Errors: those of folding constants.
Result<void> settle_branches(Model& model);

} // namespace lathe::openvino
