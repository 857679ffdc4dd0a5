#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Attention on wgmma, for compute capability 9.0: f16 in, f16 or s8 out, depth 32 or 64, at most 512 keys, one mask of
/// any form (over an even number of keys where rows differ), causal or not, heads that share keys. A block takes
/// 64 * `groups` (1..3) rows of a head.
inline constexpr int attention_wgmma_most_groups = 3;
bool attention_wgmma_takes(const AttentionParams& params, int groups);
/// Three CUtensorMaps of 128 bytes: q, k, v.
inline constexpr int attention_wgmma_maps = 3;
cudaError_t encode_maps_attention(const AttentionParams& params, int groups, void* maps);
cudaError_t launch_attention_wgmma(const AttentionParams& params, int groups, const void* maps, cudaStream_t stream);

} // namespace lathe::cuda::kernels
