#pragma once

#include <cstddef>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// f16, depth 32 or 64, at most 512 keys: K and V of a head in shared memory, mma.sync.
bool attention_takes(const AttentionParams& params);
cudaError_t launch_attention(const AttentionParams& params, cudaStream_t stream, bool programmatic);

/// f32 to f32 or s8, depth 32 or 64, any number of keys: exact products on FMAs.
bool attention_fma_takes(const AttentionParams& params);
/// Shared memory of a block that has so many rows of Q.
std::size_t attention_fma_shared_bytes(std::int64_t depth, int rows);
/// `rows`: 16, 32 or 64 of Q a block; fewer where there are few heads, so that more multiprocessors work.
cudaError_t launch_attention_fma(int rows, const AttentionParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
