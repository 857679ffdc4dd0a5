#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Gives a mask that is one row for all samples and heads a row for each head. In 16 bits OpenVINO 2026.4's kernel for
/// attention reads something else where such a row is an input of the model or a constant (results are no numbers);
/// with a row a head it is right. The number of heads must be known.
void give_masks_to_heads(ov::Model& model);

} // namespace lathe::openvino
