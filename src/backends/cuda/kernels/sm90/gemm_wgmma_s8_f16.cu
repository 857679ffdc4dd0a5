#include "backends/cuda/kernels/sm90/gemm_wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

const WideInstance* wide_s8_to_f16(int& count) {
    static const WideInstance instances[] = {
        make_wide<std::int8_t, __half, 192, false>("wide_s8_f16_m128n192_together"),
        make_wide<std::int8_t, __half, 128, true>("wide_s8_f16_m128n128_alternate"),
        make_wide<std::int8_t, __half, 128, false>("wide_s8_f16_m128n128_together"),
        make_wide<std::int8_t, __half, 256, false>("wide_s8_f16_m128n256_together"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
