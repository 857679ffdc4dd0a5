#pragma once

#include <cstddef>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// f16, depth 32 or 64, at most 512 keys: K and V of a head in shared memory, mma.sync.
bool attention_takes(const AttentionParams& params);
cudaError_t launch_attention(const AttentionParams& params, cudaStream_t stream, bool programmatic);

/// f16 or bf16, any length, heads up to 256 wide, all that AttentionParams can say: mma.sync on tiles of
/// keys.
bool attention_flash_takes(const AttentionParams& params);
/// A block: 1, 2 or 4 warps of 16 rows of Q each; or, `split`, 4 warps that share 16 rows, each with a fourth of the
/// keys, which is quicker where there are few rows and heads.
struct FlashTile {
    int warps = 4;
    bool split = false;
    int rows() const { return split ? 16 : warps * 16; }
};
std::size_t attention_flash_shared_bytes(const AttentionParams& params, FlashTile tile);
cudaError_t launch_attention_flash(const AttentionParams& params, FlashTile tile, cudaStream_t stream,
                                   bool programmatic);

/// The same for at most 64 keys and heads up to 64 wide whose rows begin at even places: nothing in shared memory.
bool attention_short_takes(const AttentionParams& params);
cudaError_t launch_attention_short(const AttentionParams& params, cudaStream_t stream, bool programmatic);

/// The same for up to 8 rows of Q that read one head of keys, which are shared out over `split` blocks; then a second
/// kernel joins the parts. The workspace is of f32.
bool attention_decode_takes(const AttentionParams& params);
std::size_t attention_decode_workspace(const AttentionParams& params, int split);
cudaError_t launch_attention_decode(const AttentionParams& params, int split, void* workspace, cudaStream_t stream,
                                    bool programmatic);

/// f32 to f32 or s8, depth 32 or 64, any number of keys: exact products on FMAs.
bool attention_fma_takes(const AttentionParams& params);
/// Shared memory of a block that has so many rows of Q.
std::size_t attention_fma_shared_bytes(std::int64_t depth, int rows);
/// `rows`: 16, 32 or 64 of Q a block; fewer where there are few heads, so that more multiprocessors work.
cudaError_t launch_attention_fma(int rows, const AttentionParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
