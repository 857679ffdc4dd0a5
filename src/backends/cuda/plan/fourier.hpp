#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// DFT and STFT of known sizes are products with constant matrices of cosines and sines: dense, so a transform of n
/// numbers costs n a result, which tensor cores make less than a pass over memory up to a few thousand. Shapes must be
/// known; value infos of what is added are missing until `infer_shapes`. True if any was replaced.
bool write_out_fourier(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
