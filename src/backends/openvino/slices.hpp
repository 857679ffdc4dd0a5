#pragma once

#include "backends/openvino/quantised_semantics.hpp"

namespace lathe::openvino {

/// What stands in the place of a Slice that OpenVINO 2026.4 leaves out, or refuses (see onnx_semantics.hpp); nothing
/// for another.
Nodes slice_as_onnx(Graph& graph, const Node& node, std::int64_t opset);

/// The same of a GatherElements by fewer indices than its data has.
Nodes gathered_from_the_first(Graph& graph, const Node& node);

} // namespace lathe::openvino
