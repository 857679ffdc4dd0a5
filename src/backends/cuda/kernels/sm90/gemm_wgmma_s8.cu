#include "backends/cuda/kernels/sm90/gemm_wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

const WideInstance* wide_s8_to_s8(int& count) {
    static const WideInstance instances[] = {
        make_wide<std::int8_t, std::int8_t, 192, false>("wide_s8_s8_m128n192_together"),
        make_wide<std::int8_t, std::int8_t, 128, true>("wide_s8_s8_m128n128_alternate"),
        make_wide<std::int8_t, std::int8_t, 128, false>("wide_s8_s8_m128n128_together"),
        make_wide<std::int8_t, std::int8_t, 256, false>("wide_s8_s8_m128n256_together"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
