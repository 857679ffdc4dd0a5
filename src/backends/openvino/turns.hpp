#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Keeps out of OpenVINO's kernels for attention a Transpose that exchanges axes of one size (as many heads as tokens).
/// OpenVINO 2026.4 lets such a kernel write its output over its first input where both have one shape, though one of
/// them is turned and the other is not: what other threads still read is overwritten. Sizes must be known.
void keep_turns_apart(ov::Model& model);

} // namespace lathe::openvino
