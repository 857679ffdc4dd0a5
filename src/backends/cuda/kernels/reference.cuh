#pragma once
// How the reference kernels walk over the elements of a result.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels::reference {

inline constexpr int threads = 256;

/// Number of elements walked: with the padding channels of nhwc, which are written as zeros.
__host__ __device__ inline std::int64_t walked(const TensorDesc& y, int dim) {
    return dim == 1 && y.channel_stride > y.dims[1] ? y.channel_stride : y.dims[dim];
}
inline std::int64_t walked_count(const TensorDesc& y) {
    std::int64_t count = 1;
    for (int d = 0; d < y.rank; ++d)
        count *= walked(y, d);
    return count;
}
/// Index `i` of the walk as one index a dimension.
__device__ __forceinline__ void decompose(std::int64_t i, const TensorDesc& y, bool nhwc, std::int64_t* index) {
    if (nhwc && y.rank > 1) {
        const std::int64_t channels = walked(y, 1);
        index[1] = i % channels;
        i /= channels;
    }
    for (int d = y.rank - 1; d >= 0; --d) {
        if (nhwc && d == 1) continue;
        const std::int64_t size = walked(y, d);
        index[d] = i % size;
        i /= size;
    }
}
__device__ __forceinline__ std::int64_t offset_of(const TensorDesc& t, const std::int64_t* index) {
    std::int64_t offset = 0;
    for (int d = 0; d < t.rank; ++d)
        offset += index[d] * t.strides[d];
    return offset;
}
inline bool is_nhwc(const TensorDesc& t) { return t.rank > 2 && t.strides[1] == 1; }

} // namespace lathe::cuda::kernels::reference
