#include "backends/cuda/kernels/sm90/window_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const WindowInstance* window_s8(int& count) {
    static const WindowInstance instances[] = {
        make_window<std::int8_t, std::int8_t, 64, 64, 128, 1, 2>("wgemm_s8_m64n64k128_wgmma"),
        make_window<std::int8_t, std::int8_t, 64, 128, 128, 1, 2>("wgemm_s8_m64n128k128_wgmma"),
        make_window<std::int8_t, std::int8_t, 128, 64, 128, 2, 1>("wgemm_s8_m128n64k128_wgmma"),
        make_window<std::int8_t, std::int8_t, 128, 128, 128, 2, 1>("wgemm_s8_m128n128k128_wgmma"),
        make_window<std::int8_t, std::int8_t, 256, 128, 128, 4, 1>("wgemm_s8_m256n128k128_wgmma"),
        make_window<std::int8_t, std::int8_t, 128, 64, 64, 2, 2>("wgemm_s8_m128n64k64_wgmma"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
