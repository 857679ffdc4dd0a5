// Changes of type, scale and layout.

#include "backends/cuda/kernels/vec8.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

__global__ void convert(const __grid_constant__ ConvertParams p) {
    pdl_wait();
    pdl_trigger();
    // two vectors a thread, both loads in flight before the first store
    const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * threads * 16;
    const std::int64_t at[2] = {block + static_cast<std::int64_t>(threadIdx.x) * 8,
                                block + static_cast<std::int64_t>(threads + threadIdx.x) * 8};
    float v[2][8];
#pragma unroll
    for (int j = 0; j < 2; ++j)
        if (at[j] + 8 <= p.count) load8(p.x, p.x_type, at[j], v[j]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        if (at[j] + 8 <= p.count) {
#pragma unroll
            for (int k = 0; k < 8; ++k)
                v[j][k] = fminf(fmaxf(v[j][k] * p.factor, p.lowest), -p.lowest);
            store8(p.y, p.y_type, at[j], v[j]);
        } else {
            for (std::int64_t i = at[j]; i < p.count; ++i)
                store_any(p.y, p.y_type, i, fminf(fmaxf(load_any(p.x, p.x_type, i) * p.factor, p.lowest), -p.lowest));
        }
    }
}

constexpr int side = 32;

/// 64 rows x 32 columns a block: 8 elements of each thread in flight.
__global__ void transpose(const __grid_constant__ TransposeParams p) {
    __shared__ float tile[2 * side][side + 1];
    pdl_wait();
    pdl_trigger();
    const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * side,
                       row0 = static_cast<std::int64_t>(blockIdx.y) * 2 * side;
    for (std::int64_t b = blockIdx.z; b < p.batch; b += gridDim.z) {
        float v[8];
        const std::int64_t column = column0 + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const std::int64_t row = row0 + threadIdx.y + 8 * i;
            v[i] = row < p.rows && column < p.columns
                       ? load_any(p.x, p.x_type, b * p.x_batch + row * p.x_row + column) * p.factor
                       : 0.0F;
        }
        __syncthreads(); // the tile of the image before is read
#pragma unroll
        for (int i = 0; i < 8; ++i)
            tile[threadIdx.y + 8 * i][threadIdx.x] = v[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int r = threadIdx.y + 8 * (i / 2), c = static_cast<int>(threadIdx.x) + i % 2 * side;
            const std::int64_t to_row = column0 + r, to_column = row0 + c;
            if (to_row < p.columns && to_column < p.y_columns)
                store_any(p.y, p.y_type, b * p.y_batch + to_row * p.y_row + to_column, tile[c][r]);
        }
    }
}

} // namespace

cudaError_t launch_convert(const ConvertParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(convert, blocks_for(p.count, threads * 16), threads, 0, stream, programmatic, 1, p);
}

cudaError_t launch_transpose(const TransposeParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t across = p.y_columns > p.rows ? p.y_columns : p.rows;
    const unsigned y = blocks_for(across, 2 * side);
    if (y > 65535) return cudaErrorInvalidValue;
    return launch_kernel(transpose,
                         dim3(blocks_for(p.columns, side), y, static_cast<unsigned>(p.batch > 65535 ? 65535 : p.batch)),
                         dim3(side, 8), 0, stream, programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
