#pragma once

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// OpenVINO's refusal of a model, told for the model's owner: whether the file is wrong (parse_error) or OpenVINO lacks
/// something (unsupported), the node, its operator, and what to do. Other errors come back as they are.
Error in_our_words(Error error, const Model& model);

} // namespace lathe::openvino
