#include "backends/cuda/kernels/sm90/gemm_wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

const WideInstance* wide_f16(int& count) {
    static const WideInstance instances[] = {
        make_wide<__half, __half, 192, false>("wide_f16_f16_m128n192_together"),
        make_wide<__half, __half, 128, false>("wide_f16_f16_m128n128_together"),
        make_wide<__half, __half, 256, false>("wide_f16_f16_m128n256_together"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
