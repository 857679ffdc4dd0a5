// Gemm of few rows: the weights are streamed once, a warp one or two output columns, all rows of the input at once.
// Rows that are not multiples of 16 bytes (888 channels of int8) are read by words or bytes, and there may be any
// number of them. And Gemm of rows with few numbers and few results, which memory binds: a thread a row.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/small_gemm.hpp"
#include "backends/cuda/kernels/vec4.cuh"

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

/// The 16 bytes from byte `at` of a row of `bytes`; zeros behind its end.
__device__ __forceinline__ uint4 load_loose(const unsigned char* row, std::int64_t at, std::int64_t bytes) {
    std::uint32_t words[4] = {};
    const unsigned char* from = row + at;
    const auto left = static_cast<int>(bytes - at < 16 ? bytes - at : 16);
    const bool by_words = (reinterpret_cast<std::uintptr_t>(from) & 3U) == 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (by_words && 4 * i + 4 <= left) {
            words[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
            continue;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (4 * i + j < left) words[i] |= static_cast<std::uint32_t>(from[4 * i + j]) << (8 * j);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Split: how many warps share the columns of a group, each a part of k; then a block has eight warps.
template <class T, int Rows, int Columns, bool Loose, int Split>
__global__ void __launch_bounds__(Split > 1 ? 256 : warps * 32) small_gemm(const __grid_constant__ GemmParams p) {
    constexpr int vec = Vec16<T>::count, groups = Split > 1 ? 8 / Split : warps;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int part = warp % Split;
    const std::int64_t n0 = (static_cast<std::int64_t>(blockIdx.x) * groups + warp / Split) * Columns;
    if (Split == 1 && n0 >= p.n) {
        pdl_wait();
        return;
    }
    const std::int64_t bytes = p.k * static_cast<std::int64_t>(sizeof(T)), row0 = Loose ? blockIdx.y * Rows : 0;
    const unsigned char* w[Columns];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        const std::int64_t n = n0 + c < p.n ? n0 + c : p.n - 1;
        w[c] = static_cast<const unsigned char*>(p.weight) + n * bytes;
        // weights do not depend on the kernel before: on their way while it finishes
        for (std::int64_t at = (part * 32 + lane) * 128; at < bytes; at += Split * 32 * 128)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(w[c] + at));
    }
    pdl_wait();
    pdl_trigger();
    Sum<T> sums[Rows][Columns] = {};
    const int chunks = static_cast<int>((p.k + vec - 1) / vec);
    const auto* x = static_cast<const unsigned char*>(p.input);
#pragma unroll 2
    for (int i = part * 32 + lane; i < chunks; i += Split * 32) {
        uint4 wv[Columns];
#pragma unroll
        for (int c = 0; c < Columns; ++c)
            wv[c] =
                Loose ? load_loose(w[c], std::int64_t{i} * 16, bytes) : __ldg(reinterpret_cast<const uint4*>(w[c]) + i);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            if (row0 + r >= p.m) break;
            const unsigned char* row = x + (row0 + r) * bytes;
            const uint4 xv =
                Loose ? load_loose(row, std::int64_t{i} * 16, bytes) : reinterpret_cast<const uint4*>(row)[i];
#pragma unroll
            for (int c = 0; c < Columns; ++c)
                accumulate<T>(sums[r][c], xv, wv[c]);
        }
    }
    const auto store = [&](int r, std::int64_t n, Sum<T> sum) {
        const std::int64_t at = (row0 + r) * p.output_stride + n;
        const EpilogueParams& e = p.epilogue;
        const float residual =
            e.residual != nullptr ? load_any(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.output_type, at) : 0.0F;
        store_any(p.output, p.output_type, at,
                  finish(static_cast<float>(sum), e.scale != nullptr ? e.scale[n] : 1.0F,
                         e.bias != nullptr ? e.bias[n] : 0.0F, residual, e));
    };
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int c = 0; c < Columns; ++c) {
#pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1)
                sums[r][c] += __shfl_xor_sync(0xffffffffU, sums[r][c], offset);
            // a row each lane
            if (Split == 1 && lane == r * Columns % 32 + c && row0 + r < p.m && n0 + c < p.n)
                store(r, n0 + c, sums[r][c]);
        }
    if constexpr (Split > 1) {
        __shared__ Sum<T> parts[8][Rows * Columns];
        if (lane == 0) {
#pragma unroll
            for (int r = 0; r < Rows; ++r)
#pragma unroll
                for (int c = 0; c < Columns; ++c)
                    parts[warp][r * Columns + c] = sums[r][c];
        }
        __syncthreads();
        const int r = lane / Columns, c = lane % Columns;
        if (part != 0 || lane >= Rows * Columns || row0 + r >= p.m || n0 + c >= p.n) return;
        Sum<T> sum = parts[warp][lane];
#pragma unroll
        for (int i = 1; i < Split; ++i)
            sum += parts[warp + i][lane];
        store(r, n0 + c, sum);
    }
}

constexpr int narrow_threads = 256, most_narrow_k = 64, most_narrow_n = 16;

/// Results: 4, 8 or 16, of which `p.n` are there.
template <class T, int Results>
__global__ void __launch_bounds__(narrow_threads) narrow_gemm(const __grid_constant__ GemmParams p) {
    constexpr int vec = Vec16<T>::count;
    __shared__ float4 weights[(most_narrow_k + vec) * Results / 4]; // [k][result], zeros behind both ends
    const int k = static_cast<int>(p.k), n = static_cast<int>(p.n), chunks = (k + vec - 1) / vec;
    for (int i = static_cast<int>(threadIdx.x); i < chunks * vec * Results; i += narrow_threads) {
        const int at = i / Results, result = i % Results;
        reinterpret_cast<float*>(weights)[i] =
            at < k && result < n ? to_float(static_cast<const T*>(p.weight)[result * k + at]) : 0.0F;
    }
    __syncthreads();
    pdl_wait();
    pdl_trigger();
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * narrow_threads + threadIdx.x;
    if (row >= p.m) return;
    const std::int64_t bytes = p.k * static_cast<std::int64_t>(sizeof(T));
    const unsigned char* from = static_cast<const unsigned char*>(p.input) + row * bytes;
    float sums[Results] = {};
#pragma unroll 2
    for (int i = 0; i < chunks; ++i) {
        float x[vec];
        unpack<T>(load_loose(from, std::int64_t{i} * 16, bytes), x);
#pragma unroll
        for (int e = 0; e < vec; ++e)
#pragma unroll
            for (int c = 0; c < Results; c += 4) {
                const float4 w = weights[((i * vec + e) * Results + c) / 4];
                sums[c] = fmaf(x[e], w.x, sums[c]);
                sums[c + 1] = fmaf(x[e], w.y, sums[c + 1]);
                sums[c + 2] = fmaf(x[e], w.z, sums[c + 2]);
                sums[c + 3] = fmaf(x[e], w.w, sums[c + 3]);
            }
    }
    const EpilogueParams& e = p.epilogue;
    const std::int64_t to = row * p.output_stride;
    const bool by_four = n % 4 == 0 && p.output_stride % 4 == 0;
#pragma unroll
    for (int c = 0; c < Results; c += 4) {
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (c + i >= n) break;
            const float residual =
                e.residual != nullptr
                    ? load_any(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.output_type, to + c + i)
                    : 0.0F;
            v[i] = finish(sums[c + i], e.scale != nullptr ? e.scale[c + i] : 1.0F,
                          e.bias != nullptr ? e.bias[c + i] : 0.0F, residual, e);
            if (!by_four) store_any(p.output, p.output_type, to + c + i, v[i]);
        }
        if (by_four && c < n) store4(p.output, p.output_type, to + c, v);
    }
}

int bytes_of_type(std::int32_t type) { return type == type_s8 ? 1 : type == type_f32 ? 4 : 2; }
bool has_aligned_rows(const GemmParams& p) { return p.k * bytes_of_type(p.input_type) % 16 == 0; }

template <class T>
cudaError_t of_type(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    const auto launch = [&](auto kernel, int rows, int columns) {
        const dim3 grid(blocks_for(p.n, warps * columns), rows == 0 ? 1 : blocks_for(p.m, rows));
        return launch_kernel(kernel, grid, warps * 32, 0, stream, programmatic, 1, p);
    };
    if (!has_aligned_rows(p))
        return p.m == 1 ? launch(small_gemm<T, 1, 1, true, 1>, 1, 1) : launch(small_gemm<T, 16, 2, true, 1>, 16, 2);
    if (p.m == 1) return launch(small_gemm<T, 1, 1, false, 1>, 0, 1);
    if (p.m <= 4) return launch(small_gemm<T, 4, 1, false, 1>, 0, 1);
    if (p.m <= 8) return launch(small_gemm<T, 8, 2, false, 1>, 0, 2);
    return launch(small_gemm<T, 16, 2, false, 1>, 0, 2);
}

template <class T, int Split>
cudaError_t of_split(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    const auto launch = [&](auto kernel, int columns) {
        return launch_kernel(kernel, blocks_for(p.n, 8 / Split * columns), 256, 0, stream, programmatic, 1, p);
    };
    if (p.m == 1) return launch(small_gemm<T, 1, 1, false, Split>, 1);
    if (p.m <= 4) return launch(small_gemm<T, 4, 1, false, Split>, 1);
    return launch(small_gemm<T, 8, 2, false, Split>, 2);
}

} // namespace

bool small_gemm_takes(const GemmParams& p) {
    const bool type =
        p.input_type == type_s8 || p.input_type == type_f16 || p.input_type == type_bf16 || p.input_type == type_f32;
    if (!type || p.m < 1 || p.input_type != p.weight_type || p.k >= (1 << 30)) return false;
    // Larger products have kernels for all rows of whole vectors; the grid's second dim is short.
    if (has_aligned_rows(p) ? p.m > 16 : p.m > 16 * 65535) return false;
    return p.output_stride == p.n;
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

bool split_gemm_takes(const GemmParams& p, int split) {
    const bool halves = p.input_type == type_f16 || p.input_type == type_bf16;
    return halves && small_gemm_takes(p) && has_aligned_rows(p) && p.m <= 8 && p.k >= split * 32 * 8;
}

cudaError_t launch_split_gemm(int split, const GemmParams& p, cudaStream_t stream, bool programmatic) {
    if ((split != 2 && split != 4 && split != 8) || !split_gemm_takes(p, split)) return cudaErrorInvalidValue;
    const auto of = [&](auto type) {
        using T = decltype(type);
        return split == 2   ? of_split<T, 2>(p, stream, programmatic)
               : split == 4 ? of_split<T, 4>(p, stream, programmatic)
                            : of_split<T, 8>(p, stream, programmatic);
    };
    return p.input_type == type_f16 ? of(__half{}) : of(__nv_bfloat16{});
}

bool narrow_gemm_takes(const GemmParams& p) {
    const bool floats = p.input_type == type_f32 || p.input_type == type_f16 || p.input_type == type_bf16;
    return floats && p.input_type == p.weight_type && p.m >= 64 && p.m <= std::int64_t{narrow_threads} * 0x7fffffff &&
           p.k >= 1 && p.k <= most_narrow_k && p.n >= 1 && p.n <= most_narrow_n && p.output_stride >= p.n;
}

cudaError_t launch_narrow_gemm(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    if (!narrow_gemm_takes(p)) return cudaErrorInvalidValue;
    const auto of = [&](auto type) {
        using T = decltype(type);
        const auto launch = [&](auto kernel) {
            return launch_kernel(kernel, blocks_for(p.m, narrow_threads), narrow_threads, 0, stream, programmatic, 1,
                                 p);
        };
        return p.n <= 4 ? launch(narrow_gemm<T, 4>) : p.n <= 8 ? launch(narrow_gemm<T, 8>) : launch(narrow_gemm<T, 16>);
    };
    return p.input_type == type_f32 ? of(float{}) : p.input_type == type_f16 ? of(__half{}) : of(__nv_bfloat16{});
}

} // namespace lathe::cuda::kernels
