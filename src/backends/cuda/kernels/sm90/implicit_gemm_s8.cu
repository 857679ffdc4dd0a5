#include "backends/cuda/kernels/sm90/implicit_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const Instance* s8_instances(int& count) {
    static const Instance instances[] = {
        make_instance<std::int8_t, std::int8_t, 64, 32, 128, 1, 4>("igemm_s8_m64n32k128_s8_wgmma", 8),
        make_instance<std::int8_t, std::int8_t, 64, 64, 128, 1, 4>("igemm_s8_m64n64k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 64, 64, 128, 1, 4>("igemm_s8_m64n64k128_s8_wgmma", 8),
        make_instance<std::int8_t, std::int8_t, 64, 128, 128, 1, 3>("igemm_s8_m64n128k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 64, 128, 128, 1, 3>("igemm_s8_m64n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, std::int8_t, 64, 256, 128, 1, 2>("igemm_s8_m64n256k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 128, 64, 128, 1, 2>("igemm_s8_m128n64k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 128, 128, 128, 1, 2>("igemm_s8_m128n128k128_s3_wgmma", 3),
        make_instance<std::int8_t, std::int8_t, 128, 128, 128, 1, 2>("igemm_s8_m128n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, std::int8_t, 128, 256, 128, 1, 1>("igemm_s8_m128n256k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 192, 64, 128, 1, 1>("igemm_s8_m192n64k128_s6_wgmma", 6),
        make_instance<std::int8_t, std::int8_t, 192, 128, 128, 1, 1>("igemm_s8_m192n128k128_s5_wgmma", 5),
        make_instance<std::int8_t, std::int8_t, 256, 128, 128, 1, 1>("igemm_s8_m256n128k128_s4_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 64, 64, 64, 2, 4>("igemm_s8_m64n64k128_s4_c64_wgmma", 4),
        make_instance<std::int8_t, std::int8_t, 128, 64, 64, 2, 2>("igemm_s8_m128n64k128_s4_c64_wgmma", 4),
        make_instance<std::int8_t, __half, 64, 64, 128, 1, 4>("igemm_s8_m64n64k128_s8_wgmma", 8),
        make_instance<std::int8_t, float, 64, 64, 128, 1, 4>("igemm_s8_m64n64k128_s8_wgmma", 8),
        make_instance<std::int8_t, __half, 64, 128, 128, 1, 3>("igemm_s8_m64n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, float, 64, 128, 128, 1, 3>("igemm_s8_m64n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, __half, 128, 128, 128, 1, 2>("igemm_s8_m128n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, float, 128, 128, 128, 1, 2>("igemm_s8_m128n128k128_s6_wgmma", 6),
        make_instance<std::int8_t, float, 64, 32, 128, 1, 4>("igemm_s8_m64n32k128_s8_wgmma", 8),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
