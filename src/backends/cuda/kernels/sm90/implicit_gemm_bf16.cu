#include "backends/cuda/kernels/sm90/implicit_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const Instance* bf16_instances(int& count) {
    static const Instance instances[] = {
        make_instance<__nv_bfloat16, __nv_bfloat16, 64, 64, 128, 1, 4>("igemm_bf16_m64n64k128_s4_wgmma", 4),
        make_instance<__nv_bfloat16, __nv_bfloat16, 64, 64, 128, 1, 4>("igemm_bf16_m64n64k128_s8_wgmma", 8),
        make_instance<__nv_bfloat16, __nv_bfloat16, 64, 128, 128, 1, 3>("igemm_bf16_m64n128k128_s4_wgmma", 4),
        make_instance<__nv_bfloat16, __nv_bfloat16, 64, 128, 128, 1, 3>("igemm_bf16_m64n128k128_s6_wgmma", 6),
        make_instance<__nv_bfloat16, __nv_bfloat16, 128, 128, 128, 1, 2>("igemm_bf16_m128n128k128_s3_wgmma", 3),
        make_instance<__nv_bfloat16, __nv_bfloat16, 128, 128, 128, 1, 2>("igemm_bf16_m128n128k128_s6_wgmma", 6),
        make_instance<__nv_bfloat16, float, 64, 64, 128, 1, 4>("igemm_bf16_m64n64k128_s8_wgmma", 8),
        make_instance<__nv_bfloat16, float, 64, 128, 128, 1, 3>("igemm_bf16_m64n128k128_s6_wgmma", 6),
        make_instance<__nv_bfloat16, float, 128, 128, 128, 1, 2>("igemm_bf16_m128n128k128_s6_wgmma", 6),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
