#pragma once

#include <limits>
#include <span>
#include <string>

#include "graph/graph.hpp"
#include "quantize/edges.hpp"

namespace lathe {

/// What lies right behind a layer, as far as its bias is concerned: x becomes clamp(x, low, high).
struct Clamp {
    float low = -std::numeric_limits<float>::infinity();
    float high = std::numeric_limits<float>::infinity();
};

/// The clamp that a layer's output meets, alone or in a sum.
struct Behind {
    Clamp clamp;
    std::string other; ///< the other term of the sum that is clamped: what counts depends on it. Empty: no such sum
};

/// Relu or Clip behind the layer, behind a MatMul and its bias, or behind the sum of two that the layer is a term of;
/// the whole line where nothing clamps its output.
Behind behind(const EdgeIndex& index, const Node& layer);

/// sum (clamp(y) - clamp(y^ + shift))^2.
double clamped_error(std::span<const float> real, std::span<const float> quantized, const Clamp& clamp, double shift);

/// The shift s of one channel's bias for which sum (clamp(y) - clamp(y^ + s))^2 is least, y being the float and y^ the
/// quantised outputs (bias included) at the same positions: by Gauss-Newton steps, 0 if none of them is better.
///
/// Without a clamp that is the mean of y - y^, the bias correction of M. Nagel et al., 2019 (arXiv:1906.04721), section
/// 4.2. Behind a Relu only what passes may count: most outputs of ResNet-50's last blocks are far below zero, where
/// the quantised network is less negative (its inputs are clipped), and the mean over them all takes 9 dB from it.
/// `real` and `quantized` may hold other terms of a sum, which are clamped with it.
double bias_shift(std::span<const float> real, std::span<const float> quantized, const Clamp& clamp);

} // namespace lathe
