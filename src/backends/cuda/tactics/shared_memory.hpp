#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda {

// What a kernel takes of a block's shared memory: 227 KiB at most on compute capability 9.0 and 10.0, 163 KiB on 8.0,
// 99 KiB on 8.6, 8.9 and 12.0 (CUDA C++ Programming Guide, technical specifications by compute capability).

/// Of a tile of kernels/implicit_gemm_mma.cuh: the ring of stages or the staged sums, and scales and bias.
inline std::size_t mma_tile_shared_bytes(const kernels::TileConfig& tile) {
    const int ring = tile.stages * (tile.m + tile.n) * tile.k_bytes, sums = tile.m * (tile.n + 8) * 4;
    return static_cast<std::size_t>(std::max(ring, sums) + 2 * tile.n * 4);
}

/// Of kernels/attention.cu at its most: keys and values of a head, and 64 rows.
inline std::size_t attention_shared_bytes(std::int64_t kv_len, std::int64_t depth) {
    constexpr std::int64_t step = 32, rows = 64;
    const std::int64_t padded = (std::max<std::int64_t>(kv_len, 0) + step - 1) / step * step;
    return static_cast<std::size_t>((2 * padded + rows) * (depth * 2 + 16));
}

} // namespace lathe::cuda
