#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Puts Maximum(y, y), which is y, between the result y of an attention without a projection and what is computed of it
/// number by number, where that is with what its queries, keys or values were computed from (x = Relu(…),
/// x + attention(x, …)), or with something else beside another reader of y ((y - z) · y), or read more than once
/// (o = y + z, Relu(o), Tanh(o)), or less or by that (y - z); and behind a GroupNormalization that meets another value.
/// These have kernels of their own, which take in no more. Where a further kernel begins at another operand, OpenVINO
/// 2026.4 looks among the bodies that may grow for theirs, and reads through a null pointer while it compiles.
void keep_residuals_apart(ov::Model& model);

} // namespace lathe::openvino
