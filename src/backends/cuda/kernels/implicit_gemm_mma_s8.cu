#include "backends/cuda/kernels/implicit_gemm_mma.cuh"

namespace lathe::cuda::kernels::mma {

const Entry* s8_entries(int& count) {
    // name, in, out (by the result), m, n, k bytes, stages, warps
    static const Entry entries[] = {
        {{"mma_s8_m128n128_s3", type_s8, -1, 128, 128, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::s8, 128, 128, 64, 32, 3>>},
        {{"mma_s8_m128n64_s3", type_s8, -1, 128, 64, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::s8, 128, 64, 32, 32, 3>>},
        {{"mma_s8_m64n128_s3", type_s8, -1, 64, 128, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::s8, 64, 128, 32, 32, 3>>},
        {{"mma_s8_m64n64_s4", type_s8, -1, 64, 64, 128, 4, 4, 80, 999}, launch_tile<Tile<Math::s8, 64, 64, 32, 32, 4>>},
        {{"mma_s8_m32n64_s4", type_s8, -1, 32, 64, 128, 4, 4, 80, 999}, launch_tile<Tile<Math::s8, 32, 64, 16, 32, 4>>},
        {{"mma_s8_m128n32_s4", type_s8, -1, 128, 32, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::s8, 128, 32, 32, 32, 4>>},
        {{"mma_s8_m32n32_s5", type_s8, -1, 32, 32, 128, 5, 4, 80, 999}, launch_tile<Tile<Math::s8, 32, 32, 16, 16, 5>>},
        {{"mma_s8_m128n256_s3", type_s8, -1, 128, 256, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::s8, 128, 256, 64, 64, 3>>},
    };
    count = static_cast<int>(sizeof entries / sizeof entries[0]);
    return entries;
}

} // namespace lathe::cuda::kernels::mma
