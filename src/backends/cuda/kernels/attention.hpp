#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// f16, depth 32 or 64, at most 512 keys: K and V of a head in shared memory, mma.sync.
bool attention_takes(const AttentionParams& params);
cudaError_t launch_attention(const AttentionParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
