#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Keeps padding apart from a convolution with windows that would lie in it alone. OpenVINO 2026.4 makes a Pad the
/// convolution's own padding, and then loses the stride of a 1x1 window or reads beyond its memory.
void keep_padding_apart(ov::Model& model);

} // namespace lathe::openvino
