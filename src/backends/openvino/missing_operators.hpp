#pragma once

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Writes what OpenVINO 2026.4 has no form of, or computes otherwise, with operators that it has:
///  - Pad with `mode = "wrap"` as a Concat of Slices, for each axis;
///  - a Resize that it computes otherwise (antialias and others) as products with matrices of weights;
///  - DFT with `onesided = 1` as a DFT of both sides, of which it takes, or which it is given, the other half by
///    symmetry (ONNX: X[n - k] is the conjugate of X[k] for real x);
///  - DFT whose axis is a constant input, or counted from the end, with the attribute of opset 17 and its number from
///    the front: the reader looks at nothing else, and does not count the axis of complex numbers.
/// Sizes along those axes must be known; other nodes stay as they are.
void write_missing_operators(Model& model);

} // namespace lathe::openvino
