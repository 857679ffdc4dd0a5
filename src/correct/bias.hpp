#pragma once

#include <limits>
#include <optional>
#include <span>

#include "graph/graph.hpp"
#include "quantize/edges.hpp"

namespace lathe {

/// What lies right behind a layer, as far as its bias is concerned: x becomes clamp(x, low, high).
struct Clamp {
    float low = -std::numeric_limits<float>::infinity();
    float high = std::numeric_limits<float>::infinity();
};

/// Relu or Clip behind the layer, the whole line where nothing clamps its output. Nothing where the layer's output is a
/// term of a sum that is clamped then: what counts there depends on the other terms.
std::optional<Clamp> clamp_behind(const EdgeIndex& index, const Node& layer);

/// The shift s of one channel's bias for which sum (clamp(y) - clamp(y^ + s))^2 is least, y being the float and y^ the
/// quantised outputs (bias included) at the same positions: by Gauss-Newton steps, 0 if none of them is better.
///
/// Without a clamp that is the mean of y - y^, the bias correction of M. Nagel et al., 2019 (arXiv:1906.04721), section
/// 4.2. Behind a Relu only what passes may count: most outputs of ResNet-50's last blocks are far below zero, where
/// the quantised network is less negative (its inputs are clipped), and the mean over them all takes 9 dB from it.
double bias_shift(std::span<const float> real, std::span<const float> quantized, const Clamp& clamp);

} // namespace lathe
