#pragma once

#include "backends/openvino/quantised_semantics.hpp"

namespace lathe::openvino {

/// What stands in the place of a reduction, or of a pool of a whole line, that OpenVINO 2026.4 computes otherwise than
/// ONNX defines it (see onnx_semantics.hpp); nothing where it computes the same. `scaled`: who gives what in a network
/// that dequantises bytes; null in another.
Nodes reductions_as_onnx(Graph& graph, const Node& node, std::int64_t opset, const Uses* scaled);

/// Sums over axes that one operand of an Einsum has alone, in front of it, or in its place where it has one operand.
Nodes sums_of_einsum(Graph& graph, const Node& node, std::int64_t opset);

/// What an LpNormalization is: x divided by its norm.
Nodes divided_by_norm(Graph& graph, const Node& node, std::int64_t opset);

} // namespace lathe::openvino
