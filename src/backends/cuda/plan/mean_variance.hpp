#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// MeanVarianceNormalization is written out with the squares of what is left of the mean. ONNX's own form, the mean of
/// squares less the square of the mean, loses the digits that the two have in common: 4e-3 of a result in FP32 where
/// the mean is some ten deviations, and all of it in FP16. Value infos of what is added are missing until
/// `infer_shapes`. True if any was replaced.
bool write_out_mean_variance(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
