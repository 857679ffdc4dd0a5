#pragma once
// Seam of gemm_wgmma.cuh: large matrix products on Hopper.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

namespace sm90 {

inline constexpr int shared_limit_wide = 232448;
/// One instantiation of the kernel.
struct WideInstance {
    TileConfig config;
    const void* kernel;
    bool alternate;
    int stage_bytes, most_stages, run;
    int before; ///< bytes of shared memory ahead of the ring
};
const WideInstance* wide_s8_to_s8(int& count);
const WideInstance* wide_s8_to_f16(int& count);
const WideInstance* wide_f16(int& count);

} // namespace sm90

/// Tiles for products of 128 rows and more: int8 to int8 or f16, f16 to f16. Names as "wide_s8_m128n192_a".
const TileConfig* wide_tiles(int& count);
/// Whether the tile takes the product: a plain matrix product, columns a multiple of 64, the reduction of 16 bytes,
/// activation none, relu, clip or GELU. `pair`: two blocks share rows; the tiles' columns must come in pairs.
bool wide_takes(int tile, bool pair, const ImplicitGemmParams& params);
/// Two CUtensorMaps of 128 bytes.
cudaError_t encode_maps_wide(int tile, bool pair, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_wide_gemm(int tile, bool pair, int multiprocessors, const ImplicitGemmParams& params,
                             const void* maps, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
