#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/pattern.hpp"

namespace lathe::passes {

/// Per channel: y * scale + shift.
struct Affine {
    std::vector<double> scale;
    std::vector<double> shift;
};

/// What a BatchNormalization does to each channel, whose constants the match calls "scale", "shift", "mean" and
/// "variance"; nothing if they do not fit.
std::optional<Affine> affine_of_norm(const Match& match, const Node& norm, std::size_t channels);

/// What a Mul, Add, Sub or Div does, whose constant the match calls "c" and has these values, one a channel.
Affine affine_of_arithmetic(const Match& match, const Node& op, std::span<const double> values);

/// The constant's value for each channel of a tensor [N, C, ...] of this rank; nothing if it differs elsewhere or would
/// broadcast the tensor to a larger one.
std::optional<std::vector<double>> per_channel(const Tensor& constant, std::size_t rank, std::size_t channels);

/// The values of a vector along the last axis of a result that has `columns` there and at least `rank` axes.
std::optional<std::vector<double>> along_columns(const Tensor& constant, std::size_t columns, std::size_t rank);

/// Whether the normalisation is by given statistics, one a channel, and gives nothing but its result.
bool is_inference(const Node& norm, std::int64_t opset);

/// The weights of a Conv, ConvTranspose, Gemm or MatMul in one form.
struct Linear {
    const Tensor* weight = nullptr;
    const Tensor* bias = nullptr; ///< nullptr: none
    std::size_t channels = 0;     ///< of the output
    double bias_factor = 1;       ///< Gemm's beta
};

/// Nothing where a number is not constant, or Gemm's C is a matrix.
std::optional<Linear> linear_of(const Graph& graph, const Node& node);

/// Output channel of the weight's element `i`.
std::size_t output_channel(const Node& node, const Linear& linear, std::size_t i);

/// Channels of the whole input of a Conv, Gemm or MatMul, and which of them the weight's element `i` multiplies.
std::size_t input_channels(const Node& node, const Linear& linear);
std::size_t input_channel(const Node& node, const Linear& linear, std::size_t i);

} // namespace lathe::passes
