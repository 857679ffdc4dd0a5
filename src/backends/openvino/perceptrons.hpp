#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Puts Maximum(x, x), which is x, before a quantisation between two products of rows with bytes, where nothing, or a
/// factor or shift, is behind the first product's activation or in its place. Of few rows OpenVINO 2026.4 gathers such
/// products in one kernel, which takes the first one's sums for floats, or one channel's factor for all.
void keep_perceptrons_apart(ov::Model& model);

} // namespace lathe::openvino
