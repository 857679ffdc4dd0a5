#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// A layer normalisation that leaves the mean in: one warp a row, any columns.
cudaError_t launch_rms_norm_general(const LayerNormParams& params, cudaStream_t stream, bool programmatic);

struct GroupFactorsParams {
    TensorDesc x;                ///< nhwc
    float *factor, *shift;       ///< [n, channel_stride]; zeros behind the last channel
    std::int64_t channel_stride; ///< of factor and shift
    std::int64_t groups;
    float epsilon;
};
/// One warp a group of a sample.
cudaError_t launch_group_factors_general(const GroupFactorsParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
