#include "backends/cuda/kernels/sm90/chain_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

const ChainInstance* chain_s8(int& count) {
    using S8 = std::int8_t;
    static const ChainInstance instances[] = {
        make_chain<S8, 64, 0, 256, 64, 4, 1, 2, 2>("chain_s8_k64n256n64_g4_t1"),
        make_chain<S8, 64, 0, 256, 128, 4, 1, 2, 2>("chain_s8_k64n256n128_g4_t1"),
        make_chain<S8, 64, 64, 256, 64, 4, 1, 2, 1>("chain_s8_k64d64n256n64_g4_t1"),
        make_chain<S8, 64, 64, 256, 0, 4, 1, 2, 1>("chain_s8_k64d64n256_g4_t1"),
        make_chain<S8, 128, 0, 512, 128, 4, 4, 2, 2>("chain_s8_k128n512n128_g4_t4"),
        make_chain<S8, 256, 128, 128, 0, 4, 2, 2, 2>("chain_s8_k256d128n128_g4_t2"),
        make_chain<S8, 256, 128, 128, 0, 4, 1, 1, 1>("chain_s8_k256d128n128_g4_t1"),
        make_chain<S8, 128, 256, 128, 0, 4, 1, 1, 1>("chain_s8_k128d256n128_g4_t1"),
        make_chain<S8, 256, 0, 256, 0, 4, 2, 2, 2>("chain_s8_k256n256_g4_t2"),
        make_chain<S8, 512, 0, 128, 0, 4, 2, 2, 1>("chain_s8_k512n128_g4_t2"),
        make_chain<S8, 128, 0, 128, 0, 4, 1, 3, 2>("chain_s8_k128n128_g4_t1"),
    };
    count = static_cast<int>(sizeof(instances) / sizeof(instances[0]));
    return instances;
}

} // namespace lathe::cuda::kernels::sm90
