#pragma once
// First convolutions of image networks. Like launch.hpp, between tactics and .cu files.

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// First convolution of an image network: up to 4 channels of f32 NCHW in, nhwc out; products in the weight's type.
struct StemParams {
    const float* input;
    const void* weight; ///< [k][r][s][weight_c] f16 or bf16
    void* output;
    std::int32_t weight_type, output_type, weight_c;
    std::int32_t n, c, h, w, k, k_stride, p, q; ///< p, q: convolution's result
    WindowParams window;
    std::int32_t pooled, pool_p, pool_q; ///< a 3x3 max pool of stride 2 and pad 1 behind the activation
    EpilogueParams epilogue;
};
/// Any window, stride, dilation and padding of up to some 200 taps, any k and activation, no pool; results of the
/// weight's type or s8. A tile is `rows` x `columns` results (columns a power of two from 8 on, 32 results or more); a
/// warp makes 32 * `blocks` (1 to 3) channels of 32 of them at once.
struct StemPatchTile {
    std::int32_t rows, columns, blocks;
};
bool stem_patch_takes(const StemParams& params, const StemPatchTile& tile);
/// How many blocks share the channels of a tile, times that each goes through it, and blocks a multiprocessor holds.
struct StemPatchBlock {
    std::int32_t slices, passes, resident;
};
StemPatchBlock stem_patch_block(const StemParams& params, const StemPatchTile& tile);
/// `processors`: multiprocessors of the GPU.
cudaError_t launch_stem_patch(const StemParams& params, const StemPatchTile& tile, int processors, cudaStream_t stream,
                              bool programmatic);
/// Patches of f32 NCHW as rows of a matrix of f16 or bf16, of `pitch` numbers (a multiple of 8): [n, p,
/// q][r][s][channels] or, `planes`, [n, p, q][channels][r][s], zeros beside the image, from channel c on and in the
/// rest of the pitch. `planes` also brings the weights into that order: `weights` [k][pitch] of `weight`
/// [k][r][s][weight_c].
struct PatchesParams {
    const float* input;
    void* output;
    const void* weight; ///< the last four: only with planes
    void* weights;
    std::int32_t k, weight_c;
    std::int32_t type, n, c, h, w, p, q, channels, pitch, planes;
    WindowParams window;
};
bool patches_take(const PatchesParams& params);
cudaError_t launch_patches(const PatchesParams& params, cudaStream_t stream, bool programmatic);
/// f16 products; kernel 7x7 or 3x3, stride 2, k <= 64 a multiple of 16; f16 or s8 out.
bool stem_takes(const StemParams& params);
cudaError_t launch_stem(const StemParams& params, cudaStream_t stream, bool programmatic);
/// The same on wgmma, for compute capability 9.0: with the pool, up to 3 channels, activation none, relu or clip. A
/// block makes `rows` rows (1..7) of the pool.
inline constexpr int stem_wgmma_most_rows = 7;
bool stem_wgmma_takes(const StemParams& params);
cudaError_t launch_stem_wgmma(const StemParams& params, int rows, cudaStream_t stream, bool programmatic);
/// The same for 7x7 windows, an even number of rows and of columns, rows of the input that start on 16 bytes and an
/// output_scale_inverse of 1: weights in registers, pixels spread out once in shared memory, pooling in registers. A
/// tile is `rows` rows of the pool times 28 columns (`columns` 64), or of all if the convolution has up to 112
/// (`columns` 112).
struct StemPlanesTile {
    std::int32_t rows, columns; ///< columns: of the convolution that are computed at once
};
bool stem_planes_takes(const StemParams& params, const StemPlanesTile& tile);
cudaError_t launch_stem_planes(const StemParams& params, const StemPlanesTile& tile, cudaStream_t stream,
                               bool programmatic);
/// f16 products, 3x3 of stride 2 without a pool, any k, a clamp or a quick curve behind it: no shared memory. A warp
/// goes down `steps` rows of 16 columns.
bool stem_direct_takes(const StemParams& params);
cudaError_t launch_stem_direct(const StemParams& params, int steps, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
