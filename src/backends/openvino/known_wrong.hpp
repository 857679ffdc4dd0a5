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

/// Refuses windows that may lie in the padding behind the input alone, where only sizes tell: those of an AveragePool
/// that counts its padding and rounds its sizes up, and of a strided Conv. Sizes must be inferred before.
Result<void> refuse_open_windows(const Graph& graph);

} // namespace lathe::openvino
