#pragma once

#include "backends/cuda/kernels/indexed.hpp"

namespace lathe::cuda::kernels {

/// IndexedKind::roi_align, pick_boxes, list_boxes and nonzero, for any operands that plan/verify.cpp lets pass.
cudaError_t launch_detection(const IndexedParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
