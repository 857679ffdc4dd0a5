#pragma once
// Between tactics (C++20, g++) and .cu files: plain structs and functions, no templates, no CUDA types but the stream.

#include <cstdint>

#include <cuda_runtime_api.h>

namespace lathe::cuda::kernels {

struct EpilogueParams {
    const float* scale;
    const float* bias;
    const void* residual;
    float residual_scale;
    std::int32_t act;
    float low, high, alpha, output_scale_inverse;
    std::int32_t residual_is_s8;
};
/// Convolution and gemm alike: gemm is a 1x1 convolution on an image of m x 1. Types: 0 f32, 1 f16, 2 bf16, 3 s8.
struct ImplicitGemmParams {
    const void* input;
    const void* weight;
    void* output;
    std::int32_t n, h, w, c, c_stride, k, k_stride, r, s, p, q, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
    EpilogueParams epilogue;
};
/// One tile configuration of implicit_gemm_sm90.cu / implicit_gemm_mma.cu; names as "igemm_s8_m128n128k128_s5_wgmma".
struct TileConfig {
    const char* name;
    int in_type, out_type;
    int m, n, k_bytes, stages, consumers;
    int min_sm, max_sm;
};
const TileConfig* sm90_tiles(int& count);
const TileConfig* mma_tiles(int& count);
/// `maps`: two 128-byte CUtensorMaps made by encode_maps_sm90 (A im2col, B tiled). split: CTAs of a cluster along K
/// (1..8).
cudaError_t encode_maps_sm90(int tile, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_implicit_gemm_sm90(int tile, int split, const ImplicitGemmParams& params, const void* maps,
                                      cudaStream_t stream, bool programmatic);
cudaError_t launch_implicit_gemm_mma(int tile, int split, const ImplicitGemmParams& params, void* workspace,
                                     cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
