#include "backends/cuda/kernels/sm90/chain_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const ChainInstance* chain_f16(int& count) {
    static const ChainInstance instances[] = {
        make_chain<__half, 64, 0, 256, 64, 3, 1, 1, 1>("chain_f16_k64n256n64_g3_t1"),
        make_chain<__half, 64, 0, 256, 128, 3, 1, 1, 1>("chain_f16_k64n256n128_g3_t1"),
        make_chain<__half, 64, 64, 256, 64, 2, 1, 1, 1>("chain_f16_k64d64n256n64_g2_t1"),
        make_chain<__half, 64, 64, 256, 0, 3, 1, 1, 1>("chain_f16_k64d64n256_g3_t1"),
        make_chain<__half, 256, 0, 128, 0, 3, 1, 1, 1>("chain_f16_k256n128_g3_t1"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
