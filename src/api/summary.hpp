#pragma once

#include "onnx/summary.hpp"

namespace lathe {

/// `summarize`, and where it leaves sizes open (free input dimensions, shapes that the file computes with nodes, as
/// exporters write TensorFlow's "same" padding), the multiply-accumulates and activations are those of a copy whose
/// open input dimensions are 1 and whose shape arithmetic is folded. `assumed_dimensions` still says that inputs were
/// open.
ModelSummary summarize_resolved(const Model& model);

} // namespace lathe
