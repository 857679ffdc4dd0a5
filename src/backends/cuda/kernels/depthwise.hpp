#pragma once
// Depthwise convolutions. Like launch.hpp, between tactics and .cu files.

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Depthwise convolution over nhwc. Input and weights are of one type.
struct DepthwiseParams {
    const void* input;
    const void* weight; ///< [depths][r][s][c_stride of the packing]
    void* output;
    std::int32_t type, output_type, weight_c;
    /// c_stride, y_stride: channels with their padding. c_pitch, y_pitch: elements from pixel to pixel, more than that
    /// where the image is a part of a wider one.
    /// n: images of the result.
    std::int32_t n, h, w, c, c_stride, c_pitch, y_stride, y_pitch, p, q;
    WindowParams window;
    DepthParams depths;
    std::uint32_t pad_word;  ///< what lies around the image: s8 its zero point in all four bytes, floats 0
    EpilogueParams epilogue; ///< with residual_stride
};
/// Whether the window has a third dimension.
inline bool is_deep(const DepthwiseParams& p) {
    const DepthParams& d = p.depths;
    return d.kernel != 1 || d.stride != 1 || d.before != 0 || d.in != d.out;
}
/// Any window of up to 1024 taps, any types, any epilogue. A thread computes `columns` (2, 4, 7, 14; for dilated
/// windows and strides over 2 only 4; with depths 2 and 4) neighbouring results of a row.
bool depthwise_window_takes(const DepthwiseParams& params, int columns);
/// Shared memory of a block.
std::size_t depthwise_window_shared_bytes(const DepthwiseParams& params);
cudaError_t launch_depthwise_window(const DepthwiseParams& params, int columns, cudaStream_t stream, bool programmatic);
/// 3x3 or 5x5, stride 1 or 2, s8, f16 or bf16 in and out or s8 to f16, on mma.sync, for activations that
/// quads.cuh takes and no residual. A lane computes `rows` (1, 2, 4) x 2 results of `words` (2; 4 for 3x3) words of
/// channels, `steps` times going down.
struct DepthwiseTile {
    std::int32_t words, rows, steps;
};
bool depthwise_mma_takes(const DepthwiseParams& params, const DepthwiseTile& tile);
/// Blocks of it that a multiprocessor runs at once.
int depthwise_mma_blocks(const DepthwiseParams& params, const DepthwiseTile& tile);
cudaError_t launch_depthwise_mma(const DepthwiseParams& params, const DepthwiseTile& tile, cudaStream_t stream,
                                 bool programmatic);
/// 5x5 or 7x7, stride 1 or 2, types and activations as for depthwise_mma, or a residual
/// and no activation. A block's tile is `chunks` x
/// 8 columns and `bands` x `rows` (1, 2, 4, 7) rows of `images` images; chunks * bands * images is at most 16.
struct ToeplitzTile {
    std::int32_t rows, chunks, bands, images;
};
bool depthwise_toeplitz_takes(const DepthwiseParams& params, const ToeplitzTile& tile);
/// Shared memory of a block, of a problem that it takes.
std::size_t depthwise_toeplitz_shared_bytes(const DepthwiseParams& params, const ToeplitzTile& tile);
cudaError_t launch_depthwise_toeplitz(const DepthwiseParams& params, const ToeplitzTile& tile, cudaStream_t stream,
                                      bool programmatic);

} // namespace lathe::cuda::kernels
