#pragma once
// Between tactics and chain_gemm_sm90.cu.

#include <cstddef>

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// 1x1 convolutions that follow one another, in one kernel for compute capability 9.0: `first` and the sum with its
/// residual; the residual may be `down`'s result instead, as if it had been stored in the output's type (strides of
/// both as they like); `second` reads what first wrote. All results are written but down's. Types alike: f16 or s8.
struct ChainParams {
    ImplicitGemmParams first, down, second;
    bool has_down, has_second;
};
/// One compiled form: channels of first's and of down's input (0: the residual is a tensor), columns of first's result
/// in a block, channels of second's result (0: no second).
struct ChainForm {
    const char* name;
    int type, k1, kd, n1, n2;
};
const ChainForm* chain_forms(int& count);
bool chain_takes(int form, const ChainParams& params, int type);
/// `maps`: chain_maps_bytes, aligned to 64.
inline constexpr std::size_t chain_maps_bytes = 7 * 128;
cudaError_t encode_chain(int form, const ChainParams& params, void* maps);
cudaError_t launch_chain(int form, const ChainParams& params, const void* maps, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
