// Patches of an image as the rows of a matrix, for a product that does the rest of a convolution. A thread makes 8
// neighbouring numbers; a warp's are rows of a few patches, whose bytes it reads whole. Where the matrix has the
// channels' planes one after another, the weights are brought into that order by the same launch.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

struct Work {
    std::int32_t vectors;       ///< of a row
    std::int64_t rows, columns; ///< of patches; numbers of a row that are not padding
    std::int64_t count;         ///< vectors in all, the weights' included
};

/// Calls use(i, r, s, c) for the eight numbers of a row from `first` on.
template <class Use>
__device__ __forceinline__ void each_of_eight(const PatchesParams& p, std::int64_t columns, int first, const Use& use) {
    const int width = p.window.kernel_w, height = p.window.kernel_h;
    int r, s, c;
    if (p.planes != 0) {
        c = first / (width * height);
        r = (first - c * width * height) / width;
        s = first - (c * height + r) * width;
    } else {
        const int tap = first / p.channels;
        c = first - tap * p.channels;
        r = tap / width;
        s = tap - r * width;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (first + i < columns) use(i, r, s, c);
        if (p.planes != 0) {
            if (++s == width) {
                s = 0;
                if (++r == height) r = 0, ++c;
            }
        } else if (++c == p.channels) {
            c = 0;
            if (++s == width) s = 0, ++r;
        }
    }
}

template <class T>
__global__ void __launch_bounds__(threads)
    patches(const __grid_constant__ PatchesParams p, const __grid_constant__ Work t) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    pdl_wait();
    pdl_trigger();
    if (i >= t.count) return;
    const std::int64_t row = i / t.vectors;
    const int first = static_cast<int>(i - row * t.vectors) * 8;
    if (row >= t.rows) {
        const std::int64_t taps = static_cast<std::int64_t>(p.window.kernel_h) * p.window.kernel_w;
        const T* from = static_cast<const T*>(p.weight) + (row - t.rows) * taps * p.weight_c;
        alignas(16) T v[8] = {};
        each_of_eight(p, t.columns, first,
                      [&](int k, int r, int s, int c) { v[k] = from[(r * p.window.kernel_w + s) * p.weight_c + c]; });
        reinterpret_cast<uint4*>(p.weights)[i - t.rows * t.vectors] = *reinterpret_cast<const uint4*>(v);
        return;
    }
    const int pixels = p.p * p.q, n = static_cast<int>(row / pixels),
              rest = static_cast<int>(row - n * static_cast<std::int64_t>(pixels));
    const int oh = rest / p.q, ow = rest - oh * p.q;
    const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
    const float* image = p.input + n * p.c * plane;
    const int h0 = oh * p.window.stride_h - p.window.pad_h, w0 = ow * p.window.stride_w - p.window.pad_w;
    float v[8] = {};
    each_of_eight(p, t.columns, first, [&](int k, int r, int s, int c) {
        const int h = h0 + r * p.window.dil_h, w = w0 + s * p.window.dil_w;
        if (c < p.c && static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
            static_cast<unsigned>(w) < static_cast<unsigned>(p.w))
            v[k] = __ldg(image + c * plane + static_cast<std::int64_t>(h) * p.w + w);
    });
    reinterpret_cast<uint4*>(p.output)[i] = pack<T>(v);
}

Work work_of(const PatchesParams& p) {
    Work t{};
    t.vectors = p.pitch / 8;
    t.rows = std::int64_t{p.n} * p.p * p.q;
    t.columns = std::int64_t{p.window.kernel_h} * p.window.kernel_w * p.channels;
    t.count = (t.rows + (p.planes != 0 ? p.k : 0)) * t.vectors;
    return t;
}

} // namespace

bool patches_take(const PatchesParams& p) {
    if (p.type != type_f16 && p.type != type_bf16) return false;
    const Work t = work_of(p);
    if (p.channels < p.c || p.pitch % 8 != 0 || p.pitch < t.columns || p.pitch > 1 << 20) return false;
    if (p.planes != 0 && (p.k < 1 || p.weight_c < p.channels)) return false;
    return std::int64_t{p.p} * p.q <= 0x7fffffff && (t.count + threads - 1) / threads <= 0x7fffffff;
}

cudaError_t launch_patches(const PatchesParams& p, cudaStream_t stream, bool programmatic) {
    if (!patches_take(p)) return cudaErrorInvalidValue;
    const Work t = work_of(p);
    const auto kernel = p.type == type_f16 ? patches<__half> : patches<__nv_bfloat16>;
    return launch_kernel(kernel, blocks_for(t.count, threads), threads, 0, stream, programmatic, 1, p, t);
}

} // namespace lathe::cuda::kernels
