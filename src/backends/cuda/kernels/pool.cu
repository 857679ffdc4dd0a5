// Pooling over nhwc, 16 bytes of channels a thread.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

template <class T>
__device__ __forceinline__ std::uint32_t max_word(std::uint32_t a, std::uint32_t b);
template <>
__device__ __forceinline__ std::uint32_t max_word<std::int8_t>(std::uint32_t a, std::uint32_t b) {
    return __vmaxs4(a, b);
}
template <>
__device__ __forceinline__ std::uint32_t max_word<float>(std::uint32_t a, std::uint32_t b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
}
template <>
__device__ __forceinline__ std::uint32_t max_word<__half>(std::uint32_t a, std::uint32_t b) {
    const __half2 v = __hmax2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&v);
}
template <>
__device__ __forceinline__ std::uint32_t max_word<__nv_bfloat16>(std::uint32_t a, std::uint32_t b) {
    const __nv_bfloat162 v = __hmax2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&v);
}

/// Size > 0: a square window of that size known when compiled, so that its loads are in flight together.
template <class T, int Size>
__global__ void __launch_bounds__(threads) pool(const __grid_constant__ PoolFastParams p, int chunks, int count) {
    constexpr int vec = Vec16<T>::count;
    pdl_wait();
    const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
    if (i >= count) return;
    const int chunk = i % chunks, pixel = i / chunks;
    const int ow = pixel % p.q, rest = pixel / p.q, oh = rest % p.p, n = rest / p.p;
    const int h0 = oh * p.window.stride_h - p.window.pad_h, w0 = ow * p.window.stride_w - p.window.pad_w;
    const T* image =
        static_cast<const T*>(p.input) + static_cast<std::int64_t>(n) * p.h * p.w * p.c_stride + chunk * vec;
    const int kh = Size > 0 ? Size : p.window.kernel_h, kw = Size > 0 ? Size : p.window.kernel_w;
    const auto at = [&](int r, int s, bool& inside) {
        const int h = h0 + r * p.window.dil_h, w = w0 + s * p.window.dil_w;
        inside = static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                 static_cast<unsigned>(w) < static_cast<unsigned>(p.w);
        return inside ? image + static_cast<std::int64_t>(h * p.w + w) * p.c_stride : image;
    };
    T* out = static_cast<T*>(p.output) + static_cast<std::int64_t>(pixel) * p.c_stride + chunk * vec;
    if (p.average == 0) {
        uint4 best = make_uint4(0, 0, 0, 0);
        bool any = false;
        const auto take = [&](const uint4& v) {
            best = any ? make_uint4(max_word<T>(best.x, v.x), max_word<T>(best.y, v.y), max_word<T>(best.z, v.z),
                                    max_word<T>(best.w, v.w))
                       : v;
            any = true;
        };
        if constexpr (Size > 0) {
#pragma unroll
            for (int r = 0; r < Size; ++r) {
                uint4 row[Size];
                bool inside[Size];
#pragma unroll
                for (int s = 0; s < Size; ++s) {
                    const T* from = at(r, s, inside[s]);
                    if (inside[s]) row[s] = *reinterpret_cast<const uint4*>(from);
                }
#pragma unroll
                for (int s = 0; s < Size; ++s)
                    if (inside[s]) take(row[s]);
            }
        } else {
            for (int r = 0; r < kh; ++r)
                for (int s = 0; s < kw; ++s) {
                    bool inside = false;
                    const T* from = at(r, s, inside);
                    if (inside) take(*reinterpret_cast<const uint4*>(from));
                }
        }
        if (p.rescale != 1) {
            float v[vec];
            unpack<T>(best, v);
#pragma unroll
            for (int k = 0; k < vec; ++k)
                v[k] *= p.rescale;
            best = pack<T>(v);
        }
        *reinterpret_cast<uint4*>(out) = best;
        return;
    }
    float sum[vec] = {};
    int inside_count = 0, padded = 0;
    for (int r = 0; r < kh; ++r)
        for (int s = 0; s < kw; ++s) {
            bool inside = false;
            const T* from = at(r, s, inside);
            if (h0 + r * p.window.dil_h < p.h + p.window.pad_bottom &&
                w0 + s * p.window.dil_w < p.w + p.window.pad_right)
                ++padded;
            if (!inside) continue;
            ++inside_count;
            float v[vec];
            unpack<T>(*reinterpret_cast<const uint4*>(from), v);
#pragma unroll
            for (int k = 0; k < vec; ++k)
                sum[k] += v[k];
        }
    const int divisor = p.count_pad != 0 ? padded : inside_count;
    const float count_f = static_cast<float>(divisor > 0 ? divisor : 1);
#pragma unroll
    for (int k = 0; k < vec; ++k)
        sum[k] = sum[k] / count_f * p.rescale;
    *reinterpret_cast<uint4*>(out) = pack<T>(sum);
}

constexpr int lanes = 16, groups = 16; ///< chunks and pixels side by side in a block

template <class T>
__global__ void __launch_bounds__(lanes* groups) global_pool(const __grid_constant__ GlobalPoolFastParams p) {
    constexpr int vec = Vec16<T>::count;
    __shared__ float sums[groups][lanes][vec + 1];
    pdl_wait();
    pdl_trigger();
    const int chunk = static_cast<int>(blockIdx.x) * lanes + static_cast<int>(threadIdx.x),
              n = static_cast<int>(blockIdx.y);
    const bool inside = chunk * vec < p.c_stride;
    const T* image =
        static_cast<const T*>(p.input) + static_cast<std::int64_t>(n) * p.pixels * p.c_stride + chunk * vec;
    float sum[vec];
#pragma unroll
    for (int k = 0; k < vec; ++k)
        sum[k] = p.average != 0 ? 0.0F : -INFINITY;
    constexpr int together = 4; // loads in flight
    for (int first = static_cast<int>(threadIdx.y); inside && first < p.pixels; first += together * groups) {
        uint4 words[together];
#pragma unroll
        for (int j = 0; j < together; ++j)
            if (first + j * groups < p.pixels)
                words[j] =
                    *reinterpret_cast<const uint4*>(image + static_cast<std::int64_t>(first + j * groups) * p.c_stride);
#pragma unroll
        for (int j = 0; j < together; ++j) {
            if (first + j * groups >= p.pixels) continue;
            float v[vec];
            unpack<T>(words[j], v);
#pragma unroll
            for (int k = 0; k < vec; ++k)
                sum[k] = p.average != 0 ? sum[k] + v[k] : fmaxf(sum[k], v[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < vec; ++k)
        sums[threadIdx.y][threadIdx.x][k] = sum[k];
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.y) * lanes + static_cast<int>(threadIdx.x);
    for (int e = thread; e < lanes * vec; e += lanes * groups) {
        const int channel = static_cast<int>(blockIdx.x) * lanes * vec + e;
        if (channel >= p.output_stride) continue;
        float total = p.average != 0 ? 0.0F : -INFINITY;
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            const float v = sums[g][e / vec][e % vec];
            total = p.average != 0 ? total + v : fmaxf(total, v);
        }
        if (p.average != 0) total /= static_cast<float>(p.pixels);
        store_any(p.output, p.output_type, static_cast<std::int64_t>(n) * p.output_stride + channel,
                  channel < p.c ? total * p.rescale : 0.0F);
    }
}

template <class T>
cudaError_t pool_of(const PoolFastParams& p, cudaStream_t stream, bool programmatic) {
    const int chunks = p.c_stride / Vec16<T>::count;
    const std::int64_t count = std::int64_t{p.n} * p.p * p.q * chunks;
    if (p.c_stride % Vec16<T>::count != 0 || count > 0x7fffff00) return cudaErrorInvalidValue;
    const bool square = p.window.kernel_h == p.window.kernel_w;
    const auto kernel = square && p.window.kernel_h == 3   ? pool<T, 3>
                        : square && p.window.kernel_h == 2 ? pool<T, 2>
                                                           : pool<T, 0>;
    return launch_kernel(kernel, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, chunks,
                         static_cast<int>(count));
}
template <class T>
cudaError_t global_pool_of(const GlobalPoolFastParams& p, cudaStream_t stream, bool programmatic) {
    if (p.c_stride % Vec16<T>::count != 0 || p.n > 65535) return cudaErrorInvalidValue;
    const int across = p.c_stride > p.output_stride ? p.c_stride : p.output_stride;
    return launch_kernel(global_pool<T>, dim3(blocks_for(across, lanes * Vec16<T>::count), static_cast<unsigned>(p.n)),
                         dim3(lanes, groups), 0, stream, programmatic, 1, p);
}

} // namespace

cudaError_t launch_pool(const PoolFastParams& p, cudaStream_t stream, bool programmatic) {
    switch (p.type) {
        case type_f32: return pool_of<float>(p, stream, programmatic);
        case type_f16: return pool_of<__half>(p, stream, programmatic);
        case type_bf16: return pool_of<__nv_bfloat16>(p, stream, programmatic);
        case type_s8: return pool_of<std::int8_t>(p, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

cudaError_t launch_global_pool(const GlobalPoolFastParams& p, cudaStream_t stream, bool programmatic) {
    switch (p.type) {
        case type_f32: return global_pool_of<float>(p, stream, programmatic);
        case type_f16: return global_pool_of<__half>(p, stream, programmatic);
        case type_bf16: return global_pool_of<__nv_bfloat16>(p, stream, programmatic);
        case type_s8: return global_pool_of<std::int8_t>(p, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

} // namespace lathe::cuda::kernels
