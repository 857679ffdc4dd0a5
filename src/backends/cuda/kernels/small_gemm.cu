// Gemm of few rows: the weights are streamed once, a warp one or two output columns, all rows of the input at once.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int warps = 4;

template <class T>
using Sum = std::conditional_t<sizeof(T) == 1, std::int32_t, float>;

template <class T>
__device__ __forceinline__ void accumulate(Sum<T>& sum, const uint4& x, const uint4& w) {
    if constexpr (sizeof(T) == 1) {
        sum = __dp4a(static_cast<int>(x.x), static_cast<int>(w.x), sum);
        sum = __dp4a(static_cast<int>(x.y), static_cast<int>(w.y), sum);
        sum = __dp4a(static_cast<int>(x.z), static_cast<int>(w.z), sum);
        sum = __dp4a(static_cast<int>(x.w), static_cast<int>(w.w), sum);
    } else {
        constexpr int vec = Vec16<T>::count;
        float a[vec], b[vec];
        unpack<T>(x, a);
        unpack<T>(w, b);
#pragma unroll
        for (int i = 0; i < vec; ++i)
            sum = fmaf(a[i], b[i], sum);
    }
}

template <class T, int Rows, int Columns>
__global__ void __launch_bounds__(warps * 32) small_gemm(const __grid_constant__ GemmParams p) {
    constexpr int vec = Vec16<T>::count;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t n0 = (static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32) * Columns;
    if (n0 >= p.n) {
        pdl_wait();
        return;
    }
    const uint4* w[Columns];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        const std::int64_t n = n0 + c < p.n ? n0 + c : p.n - 1;
        w[c] = reinterpret_cast<const uint4*>(static_cast<const T*>(p.weight) + n * p.k);
        // weights do not depend on the kernel before: on their way while it finishes
        for (std::int64_t at = lane * 128; at < p.k * static_cast<std::int64_t>(sizeof(T)); at += 32 * 128)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const char*>(w[c]) + at));
    }
    pdl_wait();
    pdl_trigger();
    Sum<T> sums[Rows][Columns] = {};
    const int chunks = static_cast<int>(p.k / vec);
    const uint4* x = static_cast<const uint4*>(p.input);
#pragma unroll 2
    for (int i = lane; i < chunks; i += 32) {
        uint4 wv[Columns];
#pragma unroll
        for (int c = 0; c < Columns; ++c)
            wv[c] = __ldg(w[c] + i);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            if (r >= p.m) break;
            const uint4 xv = x[static_cast<std::int64_t>(r) * chunks + i];
#pragma unroll
            for (int c = 0; c < Columns; ++c)
                accumulate<T>(sums[r][c], xv, wv[c]);
        }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int c = 0; c < Columns; ++c) {
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1)
                sums[r][c] += __shfl_xor_sync(0xffffffffU, sums[r][c], offset);
            const std::int64_t n = n0 + c;
            // a row each lane
            if (lane != r * Columns % 32 + c || r >= p.m || n >= p.n) continue;
            const std::int64_t at = r * p.output_stride + n;
            const EpilogueParams& e = p.epilogue;
            const float residual = e.residual != nullptr
                                       ? load_any(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.output_type, at)
                                       : 0.0F;
            store_any(p.output, p.output_type, at,
                      finish(static_cast<float>(sums[r][c]), e.scale != nullptr ? e.scale[n] : 1.0F,
                             e.bias != nullptr ? e.bias[n] : 0.0F, residual, e));
        }
}

template <class T>
cudaError_t of_type(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    const auto launch = [&](auto kernel, int columns) {
        return launch_kernel(kernel, blocks_for(p.n, warps * columns), warps * 32, 0, stream, programmatic, 1, p);
    };
    if (p.m == 1) return launch(small_gemm<T, 1, 1>, 1);
    if (p.m <= 4) return launch(small_gemm<T, 4, 1>, 1);
    if (p.m <= 8) return launch(small_gemm<T, 8, 2>, 2);
    return launch(small_gemm<T, 16, 2>, 2);
}

} // namespace

bool small_gemm_takes(const GemmParams& p) {
    if (p.m < 1 || p.m > 16 || p.input_type != p.weight_type) return false;
    if (p.output_stride != p.n) return false;
    switch (p.input_type) {
        case type_s8: return p.k % 16 == 0 && p.k < (1 << 30);
        case type_f16:
        case type_bf16: return p.k % 8 == 0 && p.k < (1 << 30);
        case type_f32: return p.k % 4 == 0 && p.k < (1 << 30);
        default: return false;
    }
}

cudaError_t launch_small_gemm(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    switch (p.input_type) {
        case type_f32: return of_type<float>(p, stream, programmatic);
        case type_f16: return of_type<__half>(p, stream, programmatic);
        case type_bf16: return of_type<__nv_bfloat16>(p, stream, programmatic);
        case type_s8: return of_type<std::int8_t>(p, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

} // namespace lathe::cuda::kernels
