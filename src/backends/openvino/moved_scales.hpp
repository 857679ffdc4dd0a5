#pragma once

#include "backends/openvino/quantised_semantics.hpp"

namespace lathe::openvino {

/// A Gather of bytes that a constant multiplies by channel behind their zero point: OpenVINO 2026.4 reads through a
/// null pointer, compiling it.
bool gathers_scaled_bytes(const Graph& graph, const Node& node, const Uses& uses);

/// A Reshape or Unsqueeze that adds axes of one element behind the columns of a product, or a Transpose that moves some
/// there (keys of one token and one head, which go into one Reshape with what is in front): OpenVINO takes the scales,
/// one a column, to lie along the axis before; refused, or another result where the two are as long.
bool adds_axes_behind_columns(const Graph& graph, const Node& node, const Uses& uses);

/// Whether a value of a quantised network may have a scale or a shift a channel (axis 1): of a convolution of bytes, of
/// a product that was turned, or of constants that bytes met since they were dequantised.
bool has_scales_by_channel(const Graph& graph, const std::string& value, const Uses& uses);

/// Whether OpenVINO may compute what reads a value on bytes: what was dequantised reaches it without a layer between.
bool may_be_bytes(const Graph& graph, const std::string& value, const Uses& uses);

/// What stands in the place of a Gather by one index, or by a table of them, in a quantised network (see
/// onnx_semantics.hpp); nothing for another.
Nodes gathered_in_a_row(Graph& graph, const Node& node, std::int64_t opset);

} // namespace lathe::openvino
