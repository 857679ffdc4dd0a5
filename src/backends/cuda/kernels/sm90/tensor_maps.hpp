#pragma once
// Tensor maps: how the copy engine finds a kernel's operands.

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels::sm90 {

inline int element_bytes(int type) { return type == type_f32 ? 4 : type == type_s8 ? 1 : 2; }

/// What all maps of an operand share. Boxes are `chunk` elements wide, 64 or
/// 128 bytes, and swizzled as widely.
struct MapFormat {
    int type;  ///< f16, bf16 or s8
    int chunk; ///< elements
};

/// A tensor of `rank` sizes `dims`, the fastest first; `strides` in bytes of all but the first; box sizes in elements.
cudaError_t encode_tiled(CUtensorMap& map, const MapFormat& format, const void* data, int rank, const cuuint64_t* dims,
                         const cuuint64_t* strides, const cuuint32_t* box);

/// Rows of `columns` elements, `row_elements` apart; boxes of `box_rows` rows.
cudaError_t encode_matrix(CUtensorMap& map, const MapFormat& format, const void* data, std::int64_t columns,
                          std::int64_t rows, std::int64_t row_elements, int box_rows);

/// Weights [k][reduction], n rows a box, dealt to the columns of a tile as
/// channel_of_column says; run 0: as they come.
cudaError_t encode_weights(CUtensorMap& map, const MapFormat& format, const void* data, std::int64_t reduction,
                           std::int64_t k, int n, int run);

/// An image [n][h][w][c] and the pixels that boxes walk over: first taps of p
/// by q outputs.
struct Pixels {
    std::int32_t n, h, w, c, c_stride;
    std::int32_t p, q, stride_h, stride_w, pad_h, pad_w;
};
/// Im2col boxes of `count` pixels.
cudaError_t encode_pixels(CUtensorMap& map, const MapFormat& format, const void* data, const Pixels& pixels, int count);

/// Boxes of `count` pixels of a row, which may begin and end outside: zeros there.
cudaError_t encode_rows(CUtensorMap& map, const MapFormat& format, const void* data, const Pixels& pixels, int count);

} // namespace lathe::cuda::kernels::sm90
