#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Keeps scales before normalisations (MVN, which LayerNormalization and InstanceNormalization are, GroupNormalization,
/// and what is written out as x - mean(x)) in networks of bytes. OpenVINO 2026.4 takes a factor, or the scales of a
/// convolution of bytes, for what a normalisation takes out again, and moves it behind; but the epsilon is then another
/// number beside the variance. And keeps factors of which one is zero (masks) before sums, where it divides by them.
void keep_scales_of_normalised(ov::Model& model);

} // namespace lathe::openvino
