#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Attention on wgmma, for compute capability 9.0: f16 in, f16 or s8 out, depth 32 or 64, at most 512 keys, masks of
/// any form (over an even number of keys where rows differ), causal or not, heads that share keys. A block takes 64 *
/// `groups` (1..3) rows of a head; or, `split`, 64 rows for whose keys its `groups` (2 or 4) warpgroups take turns,
/// which is quicker where there are few rows and heads.
struct AttentionWgmmaTile {
    int groups = 1;
    bool split = false;
    int rows() const { return split ? 64 : groups * 64; }
};
bool attention_wgmma_takes(const AttentionParams& params, AttentionWgmmaTile tile);
/// Three CUtensorMaps of 128 bytes: q, k, v.
inline constexpr int attention_wgmma_maps = 3;
cudaError_t encode_maps_attention(const AttentionParams& params, AttentionWgmmaTile tile, void* maps);
cudaError_t launch_attention_wgmma(const AttentionParams& params, AttentionWgmmaTile tile, const void* maps,
                                   cudaStream_t stream);

} // namespace lathe::cuda::kernels
