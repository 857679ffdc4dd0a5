// Depthwise convolution over nhwc with any epilogue, for what depthwise_mma.cu does not take: a thread has 16 bytes of
// channels of Columns neighbouring output pixels, so that an input vector is loaded once for all taps of a row that it
// meets.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 128;

template <class T, int Kernel, int Stride, int Columns>
__global__ void __launch_bounds__(threads)
    depthwise(const __grid_constant__ DepthwiseParams p, int chunks, int across, int count) {
    constexpr int vec = Vec16<T>::count, reach = (Columns - 1) * Stride + Kernel;
    using Sum = std::conditional_t<sizeof(T) == 1, std::int32_t, float>;
    const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
    pdl_wait();
    if (i >= count) return;
    const int chunk = i % chunks, strip = i / chunks;
    const int ow = strip % across * Columns, rest = strip / across, oh = rest % p.p, n = rest / p.p;
    const int h0 = oh * Stride - p.pad_h, w0 = ow * Stride - p.pad_w;
    const T* image =
        static_cast<const T*>(p.input) + static_cast<std::int64_t>(n) * p.h * p.w * p.c_stride + chunk * vec;
    const T* weight = static_cast<const T*>(p.weight) + chunk * vec;
    Sum sums[Columns][vec] = {};
#pragma unroll 1
    for (int r = 0; r < Kernel; ++r) {
        const int h = h0 + r;
        const bool row = static_cast<unsigned>(h) < static_cast<unsigned>(p.h);
        if (!row && p.pad_word == 0) continue;
        uint4 x[reach], w[Kernel];
#pragma unroll
        for (int s = 0; s < reach; ++s) {
            const int v = w0 + s;
            x[s] = row && static_cast<unsigned>(v) < static_cast<unsigned>(p.w)
                       ? *reinterpret_cast<const uint4*>(image + static_cast<std::int64_t>(h * p.w + v) * p.c_stride)
                       : make_uint4(p.pad_word, p.pad_word, p.pad_word, p.pad_word);
        }
#pragma unroll
        for (int s = 0; s < Kernel; ++s)
            w[s] =
                __ldg(reinterpret_cast<const uint4*>(weight + static_cast<std::int64_t>(r * Kernel + s) * p.weight_c));
#pragma unroll
        for (int s = 0; s < Kernel; ++s) {
            if constexpr (sizeof(T) == 1) {
                const std::int8_t* wv = reinterpret_cast<const std::int8_t*>(&w[s]);
#pragma unroll
                for (int c = 0; c < Columns; ++c) {
                    const std::int8_t* xv = reinterpret_cast<const std::int8_t*>(&x[c * Stride + s]);
#pragma unroll
                    for (int k = 0; k < vec; ++k)
                        sums[c][k] += static_cast<std::int32_t>(xv[k]) * wv[k];
                }
            } else {
                float wv[vec];
                unpack<T>(w[s], wv);
#pragma unroll
                for (int c = 0; c < Columns; ++c) {
                    float xv[vec];
                    unpack<T>(x[c * Stride + s], xv);
#pragma unroll
                    for (int k = 0; k < vec; ++k)
                        sums[c][k] = fmaf(xv[k], wv[k], sums[c][k]);
                }
            }
        }
    }
    pdl_trigger();
    const EpilogueParams& e = p.epilogue;
    const int c0 = chunk * vec;
    float scale[vec], bias[vec];
#pragma unroll
    for (int k = 0; k < vec; ++k) {
        const bool inside = c0 + k < p.c;
        scale[k] = e.scale != nullptr && inside ? e.scale[c0 + k] : 1.0F;
        bias[k] = e.bias != nullptr && inside ? e.bias[c0 + k] : 0.0F;
    }
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        if (ow + c >= p.q) break;
        const std::int64_t at = (static_cast<std::int64_t>(n * p.p + oh) * p.q + ow + c) * p.c_stride + c0;
        float v[vec], r[vec] = {};
        if (e.residual != nullptr) {
            if (e.residual_is_s8 != 0 && sizeof(T) != 1) {
#pragma unroll
                for (int k = 0; k < vec; ++k)
                    r[k] = static_cast<const std::int8_t*>(e.residual)[at + k];
            } else {
                unpack<T>(*reinterpret_cast<const uint4*>(static_cast<const T*>(e.residual) + at), r);
            }
        }
#pragma unroll
        for (int k = 0; k < vec; ++k)
            v[k] = c0 + k < p.c ? finish(static_cast<float>(sums[c][k]), scale[k], bias[k], r[k], e) : 0.0F;
        *reinterpret_cast<uint4*>(static_cast<T*>(p.output) + at) = pack<T>(v);
    }
}

template <class T, int Kernel, int Stride, int Columns>
cudaError_t launch_one(const DepthwiseParams& p, cudaStream_t stream, bool programmatic) {
    const int chunks = p.c_stride / Vec16<T>::count, across = (p.q + Columns - 1) / Columns;
    const std::int64_t count = std::int64_t{p.n} * p.p * across * chunks;
    if (count > 0x7fffff00) return cudaErrorInvalidValue;
    return launch_kernel(depthwise<T, Kernel, Stride, Columns>, blocks_for(count, threads), threads, 0, stream,
                         programmatic, 1, p, chunks, across, static_cast<int>(count));
}
template <class T>
cudaError_t launch_type(const DepthwiseParams& p, cudaStream_t stream, bool programmatic) {
    if (p.kernel == 3 && p.stride == 1) return launch_one<T, 3, 1, 2>(p, stream, programmatic);
    if (p.kernel == 3 && p.stride == 2) return launch_one<T, 3, 2, 2>(p, stream, programmatic);
    if (p.kernel == 5 && p.stride == 1) return launch_one<T, 5, 1, 2>(p, stream, programmatic);
    if (p.kernel == 5 && p.stride == 2) return launch_one<T, 5, 2, 2>(p, stream, programmatic);
    return cudaErrorInvalidValue;
}

} // namespace

bool depthwise_takes(const DepthwiseParams& p) {
    if ((p.kernel != 3 && p.kernel != 5) || (p.stride != 1 && p.stride != 2)) return false;
    if (p.type != p.output_type) return false;
    int vec = 0;
    switch (p.type) {
        case type_s8: vec = Vec16<std::int8_t>::count; break;
        case type_f16:
        case type_bf16: vec = Vec16<__half>::count; break;
        case type_f32: vec = Vec16<float>::count; break;
        default: return false;
    }
    if (p.c_stride % vec != 0 || p.weight_c % vec != 0 || p.weight_c < p.c_stride) return false;
    return std::int64_t{p.n} * p.h * p.w < 0x7fffffff && std::int64_t{p.n} * p.p * p.q < 0x7fffffff;
}

cudaError_t launch_depthwise(const DepthwiseParams& p, cudaStream_t stream, bool programmatic) {
    if (!depthwise_takes(p)) return cudaErrorInvalidValue;
    switch (p.type) {
        case type_s8: return launch_type<std::int8_t>(p, stream, programmatic);
        case type_f16: return launch_type<__half>(p, stream, programmatic);
        case type_bf16: return launch_type<__nv_bfloat16>(p, stream, programmatic);
        default: return launch_type<float>(p, stream, programmatic);
    }
}

} // namespace lathe::cuda::kernels
