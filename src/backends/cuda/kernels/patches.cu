// Patches of an image as the rows of a matrix, for a product that does the rest of a patch embedding. A thread makes 8
// neighbouring numbers; a warp's are rows of a few patches, whose bytes it reads whole.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads)
    patches(const __grid_constant__ PatchesParams p, std::int32_t vectors, std::int64_t count) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    pdl_wait();
    pdl_trigger();
    if (i >= count) return;
    const std::int64_t row = i / vectors;
    const int first = static_cast<int>(i - row * vectors) * 8;
    const int pixels = p.p * p.q, n = static_cast<int>(row / pixels),
              rest = static_cast<int>(row - n * static_cast<std::int64_t>(pixels));
    const int oh = rest / p.q, ow = rest - oh * p.q;
    const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
    const float* image = p.input + n * p.c * plane;
    int tap = first / p.channels, c = first - tap * p.channels;
    int r = tap / p.window.kernel_w, s = tap - r * p.window.kernel_w;
    const int h0 = oh * p.window.stride_h - p.window.pad_h, w0 = ow * p.window.stride_w - p.window.pad_w;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int h = h0 + r * p.window.dil_h, w = w0 + s * p.window.dil_w;
        const bool inside = c < p.c && static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                            static_cast<unsigned>(w) < static_cast<unsigned>(p.w);
        v[k] = inside ? __ldg(image + c * plane + static_cast<std::int64_t>(h) * p.w + w) : 0.0F;
        if (++c == p.channels) {
            c = 0;
            if (++s == p.window.kernel_w) {
                s = 0;
                ++r;
            }
        }
    }
    reinterpret_cast<uint4*>(p.output)[i] = pack<T>(v);
}

} // namespace

bool patches_take(const PatchesParams& p) {
    if (p.type != type_f16 && p.type != type_bf16) return false;
    const std::int64_t columns = std::int64_t{p.window.kernel_h} * p.window.kernel_w * p.channels;
    if (p.channels < p.c || columns % 8 != 0 || columns > 1 << 20 || std::int64_t{p.p} * p.q > 0x7fffffff) return false;
    return (std::int64_t{p.n} * p.p * p.q * (columns / 8) + threads - 1) / threads <= 0x7fffffff;
}

cudaError_t launch_patches(const PatchesParams& p, cudaStream_t stream, bool programmatic) {
    if (!patches_take(p)) return cudaErrorInvalidValue;
    const int vectors = p.window.kernel_h * p.window.kernel_w * p.channels / 8;
    const std::int64_t count = std::int64_t{p.n} * p.p * p.q * vectors;
    const auto kernel = p.type == type_f16 ? patches<__half> : patches<__nv_bfloat16>;
    return launch_kernel(kernel, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, vectors, count);
}

} // namespace lathe::cuda::kernels
