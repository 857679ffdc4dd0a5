#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "graph/graph.hpp"
#include "quantize/reason.hpp"

namespace lathe {

/// Conv, ConvTranspose, Gemm, MatMul: what int8 makes faster.
bool is_heavy(const Node& node);
/// Which input is the bias; MatMul has none.
std::optional<std::size_t> bias_input(const Node& node);
/// A pointwise op that runtimes fuse behind a convolution: Relu, Clip, LeakyRelu, ...
bool is_fused_activation(const Node& node);
/// Those of them that a quantiser's clipping can stand in for: Relu and Clip.
bool is_clipping(const Node& node);
bool is_average_pool(const Node& node);
/// Moves or selects elements of input 0 without changing them, so that it commutes with quantisation (given that zero
/// is representable, which it always is). The graph is needed for constants: Pad commutes only if it pads with zero.
bool is_pass_through(const Graph& graph, const Node& node);

/// A Relu, or a Clip whose lower bound is the constant 0: its result starts at 0.
bool starts_at_zero(const Graph& graph, const Node& node);
/// A convolution that reads no pixel outside its input. With SAME padding that is known of 1x1 filters alone.
bool is_unpadded(const Graph& graph, const Node& conv);
/// A convolution of each channel with one filter of its own.
bool is_depthwise(const Graph& graph, const Node& conv);

/// A constant operand, or why it is none.
using Constant = std::variant<Tensor, Reason>;
/// The value of a constant: an initializer, a Constant node, or those behind Identity, Reshape, Transpose, Squeeze,
/// Unsqueeze and Flatten. Reason: weight_not_constant or weight_overridable.
Constant resolve_constant(const Graph& graph, const std::string& value);

} // namespace lathe
