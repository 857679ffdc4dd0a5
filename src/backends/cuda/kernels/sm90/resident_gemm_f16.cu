#include "backends/cuda/kernels/sm90/resident_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const ResidentInstance* resident_f16(int& count) {
    static const ResidentInstance instances[] = {
        make_resident<__half, __half, 64, 64, 128, 2, 2>("rgemm_f16_m64n64k128_g4_wgmma"),
        make_resident<__half, __half, 64, 128, 128, 2, 2>("rgemm_f16_m64n128k128_g4_wgmma"),
        make_resident<__half, __half, 64, 128, 128, 3, 1>("rgemm_f16_m64n128k128_g3_wgmma"),
        make_resident<__half, __half, 128, 64, 128, 3, 1>("rgemm_f16_m128n64k128_g3_wgmma"),
        make_resident<__half, __half, 64, 256, 128, 2, 1>("rgemm_f16_m64n256k128_g2_wgmma"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
