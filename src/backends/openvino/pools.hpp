#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Rounds the sizes of pools up as ONNX (and PyTorch) does: a window that begins behind the input, in the padding at
/// its end, is none. What OpenVINO 2026.4 makes of an ONNX file has those, too, and gives the least number for them.
void leave_out_windows_behind(ov::Model& model);

} // namespace lathe::openvino
