#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Keeps a PRelu with a slope a channel apart from a convolution of bytes that makes several channels of each. OpenVINO
/// 2026.4 takes it into the kernel, which for few and small images or lines on one thread is that of AVX2: making it
/// fails ("bad combination") or writes over other memory.
void keep_slopes_apart(ov::Model& model);

} // namespace lathe::openvino
