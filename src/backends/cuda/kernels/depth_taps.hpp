#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Indexed of kind depth_taps (plan/indexed_kind.hpp), 16 bytes at once: x [n, depths, pixels, vectors], the result
/// [n, results, pixels, taps, vectors].
struct DepthTapsParams {
    const void* x;
    void* y;
    std::int64_t n, depths, results, pixels, vectors, taps;
    std::int64_t stride, dilation, before;
};
cudaError_t launch_depth_taps(const DepthTapsParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
