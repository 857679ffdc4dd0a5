#include "backends/cuda/kernels/sm90/resident_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const ResidentInstance* resident_s8(int& count) {
    static const ResidentInstance instances[] = {
        make_resident<std::int8_t, std::int8_t, 64, 64, 64, 2, 2>("rgemm_s8_m64n64k64_g4_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 64, 128, 2, 2>("rgemm_s8_m64n64k128_g4_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 128, 64, 2, 2>("rgemm_s8_m64n128k64_g4_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 128, 128, 2, 2>("rgemm_s8_m64n128k128_g4_wgmma"),
        make_resident<std::int8_t, std::int8_t, 128, 64, 64, 2, 2>("rgemm_s8_m128n64k64_g4_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 128, 64, 3, 1>("rgemm_s8_m64n128k64_g3_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 128, 128, 3, 1>("rgemm_s8_m64n128k128_g3_wgmma"),
        make_resident<std::int8_t, std::int8_t, 128, 64, 128, 3, 1>("rgemm_s8_m128n64k128_g3_wgmma"),
        make_resident<std::int8_t, std::int8_t, 64, 256, 128, 2, 1>("rgemm_s8_m64n256k128_g2_wgmma"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
