#pragma once

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// Refuses (unsupported) what OpenVINO reads without a word and computes otherwise than ONNX defines it, where no other
/// form of it gives the right numbers (see onnx_semantics.hpp for those that have one). ONNX's own test cases show
/// each.
Result<void> refuse_known_wrong(const Graph& graph);

} // namespace lathe::openvino
