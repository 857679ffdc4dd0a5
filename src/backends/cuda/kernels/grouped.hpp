#pragma once
// Convolutions in groups. Like launch.hpp, between tactics and .cu files.

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

struct GroupedParams {
    const void* input;
    const void* weight; ///< [k][r][s][c / groups], of the input's type
    void* output;
    std::int32_t type, output_type;
    std::int32_t tf32; ///< products of f32 may round their factors
    std::int32_t n, h, w, c, c_stride, k, k_stride, p, q, groups;
    std::int32_t k_pitch; ///< elements from pixel to pixel of the result: k_stride, more in a part of an image
    WindowParams window;
    EpilogueParams epilogue; ///< with residual_stride
};
/// A tile is `rows` x `columns` results (columns a power of two from 8 on; 32 results or more) of 8 * `tiles` channels.
struct GroupedTile {
    std::int32_t rows, columns, tiles;
};
/// Groups of any width, any window, any epilogue, f32, f16, bf16 or s8 in and out, as long as a tile fits the shared
/// memory of a block (`shared_limit`) and pixels are multiples of 16 bytes.
bool grouped_takes(const GroupedParams& params, const GroupedTile& tile, std::size_t shared_limit);
/// `processors`: multiprocessors of the GPU.
cudaError_t launch_grouped(const GroupedParams& params, const GroupedTile& tile, std::size_t shared_limit,
                           int processors, cudaStream_t stream, bool programmatic);

/// How a block of grouped_mma works: `images` x `rows` x `columns` results in 16 * `fragments` pixels of each warp.
struct GroupedMmaTile {
    std::int32_t fragments, images, rows, columns;
};
/// What a block with one fragment a warp has: `pixels`; and fragments that a warp has at most.
struct GroupedMmaForm {
    std::int32_t pixels = 0, most = 0;
};
/// 3x3 windows of groups as wide in as out, f16, bf16 or s8 in and out or s8 to f16: one wide group, or
/// some narrow ones, are a product of
/// 16 to 64 channels. No pixels: these groups have no such form.
GroupedMmaForm grouped_mma_form(const GroupedParams& params);
/// Shared memory of a block of a problem that has a form.
std::size_t grouped_mma_shared_bytes(const GroupedParams& params, const GroupedMmaTile& tile);
bool grouped_mma_takes(const GroupedParams& params, const GroupedMmaTile& tile, std::size_t shared_limit);
cudaError_t launch_grouped_mma(const GroupedParams& params, const GroupedMmaTile& tile, std::size_t shared_limit,
                               int processors, cudaStream_t stream, bool programmatic);

/// Of a block's tiles, how many have their input channels in common and are made together: 1 to 4.
int grouped_tiles_together(const GroupedParams& params, int tiles);
/// Pieces of 16 bytes of the reduction that a tile of 8 channels multiplies: what its time goes by.
int grouped_slices(const GroupedParams& params);

} // namespace lathe::cuda::kernels
