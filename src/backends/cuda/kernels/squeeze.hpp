#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Squeeze and excite (Hu et al., Squeeze-and-Excitation Networks, 2018): out = second(first(average of the pixels)),
/// both 1x1 convolutions of the one pixel that is left. Image, weights and result are of one type: f32, f16 or bf16.
struct SqueezeParams {
    const void* input;  ///< nhwc
    const void* first;  ///< [hidden][first_c]
    const void* second; ///< [k][second_c]
    void* output;       ///< [n][k_stride]
    std::int32_t type;
    std::int32_t n, pixels, c, c_pitch; ///< c_pitch: elements from pixel to pixel
    std::int32_t hidden, first_c, k, second_c, k_stride;
    float factor;                ///< of the average: rescaling
    EpilogueParams inner, outer; ///< without residuals
};
/// Blocks of an image: shared (2, 4 or 8, a cluster), or each by itself but for the results (1 to 64).
struct SqueezeTile {
    std::int32_t blocks;
    bool shared;
};
bool squeeze_takes(const SqueezeParams& params, const SqueezeTile& tile);
std::size_t squeeze_shared_bytes(const SqueezeParams& params, const SqueezeTile& tile);
cudaError_t launch_squeeze(const SqueezeParams& params, const SqueezeTile& tile, cudaStream_t stream,
                           bool programmatic);

} // namespace lathe::cuda::kernels
