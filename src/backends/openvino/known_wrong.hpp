#pragma once

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// Refuses (unsupported) what OpenVINO reads without a word and computes otherwise than ONNX defines it, where no other
/// form of it gives the right numbers (see onnx_semantics.hpp for those that have one). ONNX's own test cases show
/// each.
Result<void> refuse_known_wrong(const Graph& graph);

/// Whether it is a Resize among these: with antialias, with exclude_outside, that keeps the aspect ratio, or between
/// corners by a scale that leaves a fraction.
bool is_wrong_resize(const Graph& graph, const Node& node);

} // namespace lathe::openvino
