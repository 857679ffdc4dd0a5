#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Puts Maximum(x, x), which is x, before a convolution with padding whose input has a factor for each place along an
/// axis (its own, or that of a LayerNormalization or RMSNormalization), as many as the window has places. OpenVINO
/// 2026.4 multiplies the weights by them, as if the window stood still.
void keep_place_factors_apart(ov::Model& model);

} // namespace lathe::openvino
