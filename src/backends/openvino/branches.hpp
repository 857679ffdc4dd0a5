#pragma once

#include <map>
#include <string>

#include "graph/graph.hpp"
#include "lathe/engine.hpp"

namespace lathe::openvino {

/// Axes of inputs that a range leaves one size get that size, and values the sizes that follow: how an If is answered
/// and what a window reads may depend on them. A model whose sizes contradict each other stays as it is.
void fix_sizes(Model& model, const std::map<std::string, ShapeRange>& shapes);

/// Every If whose condition the sizes of inputs answer becomes the branch that it takes. OpenVINO keeps it, and refuses
/// what reads it where the branches differ in their number of dimensions. Without an If the model stays as it is.
/// Errors: those of folding constants.
Result<void> settle_branches(Model& model);

} // namespace lathe::openvino
