#pragma once
// What the kernels of convolutions in groups share.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/grouped.hpp"
#include "backends/cuda/kernels/mma_ptx.cuh"

namespace lathe::cuda::kernels::in_groups {

using mma::Math;

inline constexpr int slice_bytes = 16, tile_channels = 8;

template <Math M>
struct Stored {
    using type = float;
};
template <>
struct Stored<Math::f16> {
    using type = __half;
};
template <>
struct Stored<Math::bf16> {
    using type = __nv_bfloat16;
};
template <>
struct Stored<Math::s8> {
    using type = std::int8_t;
};

} // namespace lathe::cuda::kernels::in_groups
