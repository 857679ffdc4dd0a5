#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Puts Maximum(y, y), which is y, before a number for each index of axis 1 (a BatchNormalization, a factor, a sum)
/// where y of four and more axes, one of them open, comes from a product with weights and an activation behind it, or
/// from that by a product with weights from the left. OpenVINO 2026.4 takes axis 1 for the results of such a layer and
/// refuses the model, unless they are as many.
void keep_row_factors_apart(ov::Model& model);

} // namespace lathe::openvino
