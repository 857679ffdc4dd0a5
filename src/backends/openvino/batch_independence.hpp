#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Whether each output sample (axis 0) of a model depends on the same input sample only.
struct BatchIndependence {
    bool independent = false;
    std::string reason; ///< the first node that stands in the way, where not
};

/// A proof by rules, an operation a rule: a batch may then be cut into pieces that run apart with the same result.
/// Anything without a rule counts as mixing samples, so the answer "independent" is safe. Value shapes help with
/// Reshape; run `infer_shapes` before.
BatchIndependence batch_independence(const Model& model);

} // namespace lathe::openvino
