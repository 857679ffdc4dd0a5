#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Writes Mish between layers of rows (products with weights, of known sizes) by exponentials: OpenVINO 2026.4 gathers
/// such layers for one kernel, which has no Mish, and refuses the model.
void write_mish_of_rows(ov::Model& model);

} // namespace lathe::openvino
