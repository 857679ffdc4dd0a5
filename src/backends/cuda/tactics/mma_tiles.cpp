// Which tiles of the implicit GEMM on mma.sync make sense for a product, and a guess of their times.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cuda/tactics/own_options.hpp"
#include "backends/cuda/tactics/shared_memory.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// Clock cycles, roughly: products or bytes of what an SM gets, or the latency of one CTA's chain of stages.
double cost_of(const ImplicitGemm& gemm, bool tf32, const Device& device, const TileConfig& tile, int split,
               double k_tiles) {
    const double tiles = std::ceil(static_cast<double>(gemm.rows()) / tile.m) *
                         std::ceil(static_cast<double>(gemm.params.k_stride) / tile.n) * split *
                         std::max(1, gemm.params.groups);
    const double a_sm = std::ceil(tiles / std::max(1, device.multiprocessors));
    const double stages = std::ceil(k_tiles / split);
    const bool exact = gemm.in == ElementType::f32 && !tf32;
    const double products = tile.m * tile.n * 128.0 / (exact ? 4 * 100 : 2500), bytes = (tile.m + tile.n) * 128.0 / 40;
    const double writes = tile.m * tile.n * static_cast<double>(bytes_of(gemm.out)) *
                          (gemm.epilogue.residual != none ? 2 : 1) / (20.0 * split);
    const double busy = a_sm * (stages * std::max(products, bytes) + writes);
    const double latency = stages * std::max(700.0 / (tile.stages - 1), 1.3 * std::max(products, bytes / 4)) + writes;
    return std::max(busy, latency) + 1500 + (split > 1 ? 700 : 0);
}

} // namespace

std::vector<MmaTile> mma_tiles_for(const ImplicitGemm& gemm, bool tf32, const Device& device) {
    const ImplicitGemmParams& p = gemm.params;
    const std::int64_t k_bytes = std::int64_t{p.r} * p.s * p.c * static_cast<std::int64_t>(bytes_of(gemm.in));
    const double k_tiles = std::ceil(static_cast<double>(k_bytes) / 128);
    int count = 0;
    const TileConfig* tiles = mma_tiles(count);
    std::vector<MmaTile> found;
    for (int t = 0; t < count; ++t) {
        const TileConfig& tile = tiles[t];
        if (tile.in_type != type_number(gemm.in) || device.sm < tile.min_sm || device.sm > tile.max_sm) continue;
        if (mma_tile_shared_bytes(tile) > device.shared_per_block) continue;
        if (gemm.in == ElementType::f32 && (std::strstr(tile.name, "tf32") != nullptr) != tf32) continue;
        for (const int split : {1, 2, 4, 8}) {
            if (split > 1 && (device.sm < 90 || k_tiles < 2.0 * split)) continue;
            found.push_back({t, split, cost_of(gemm, tf32, device, tile, split, k_tiles),
                             std::string(tile.name) + (split > 1 ? "/" + std::to_string(split) : "")});
        }
    }
    return found;
}

} // namespace lathe::cuda
