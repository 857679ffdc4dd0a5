#pragma once
// Depthwise convolution over nhwc: any window, stride, dilation and padding, any type in and out, any epilogue.
//
// A thread has 4 neighbouring channels of Columns neighbouring results of a row. Along a row of the window it loads
// each input once and adds it to every result that it meets (Taps taps at a time, Stride known to the compiler), so
// that 7 taps of 14 results take 20 loads and not 98. The threads of a block have rows of the image below one another:
// what they share of the window's height comes from L1. Where a thread has few results, and images are small, it is the
// time of a load that counts: then several rows of the window are loaded at once. Weights lie in shared memory as
// floats. int8 is multiplied as floats too: a sum of up to 1024 products of bytes is below 2^24 and therefore exact.

#include "backends/cuda/kernels/depthwise_window.hpp"
#include "backends/cuda/kernels/vec4.cuh"

namespace lathe::cuda::kernels::depthwise {

template <class T, int Columns, int Taps, int Stride>
__device__ __forceinline__ void multiply_taps(float4 (&sums)[Columns], const T* from, int column, bool row,
                                              const float4* weights, int weight_step, const DepthwiseParams& p) {
    constexpr int reach = (Columns - 1) * Stride + Taps;
    float4 w[Taps];
#pragma unroll
    for (int s = 0; s < Taps; ++s)
        w[s] = weights[s * weight_step];
#pragma unroll
    for (int i = 0; i < reach; ++i) {
        const bool inside = row && static_cast<unsigned>(column + i) < static_cast<unsigned>(p.w);
        typename Raw4<T>::type raw = around_image<T>(p.pad_word);
        if (inside) raw = *reinterpret_cast<const typename Raw4<T>::type*>(from + i * p.c_pitch);
        const float4 x = widen<T>(raw);
#pragma unroll
        for (int s = 0; s < Taps; ++s) {
            if ((i - s) % Stride != 0 || i < s || (i - s) / Stride >= Columns) continue;
            float4& sum = sums[(i - s) / Stride];
            sum.x = fmaf(x.x, w[s].x, sum.x);
            sum.y = fmaf(x.y, w[s].y, sum.y);
            sum.z = fmaf(x.z, w[s].z, sum.z);
            sum.w = fmaf(x.w, w[s].w, sum.w);
        }
    }
}

/// Stride 0: strides and dilation along the row as the window has them, an input loaded for each of its products. Deep:
/// a window of several of a sample's images.
template <class T, int Columns, int Taps, int Stride, bool Deep>
__global__ void __launch_bounds__(threads)
    depthwise_window(const __grid_constant__ DepthwiseParams p, const __grid_constant__ Work t) {
    extern __shared__ float4 weights[]; // [tap][lane]
    const WindowParams& window = p.window;
    const int thread = static_cast<int>(threadIdx.x), lanes = 1 << t.lanes_log2, lane = thread & (lanes - 1);
    const int group = static_cast<int>(blockIdx.x) % t.groups, block = static_cast<int>(blockIdx.x) / t.groups;
    const int strip = block * (threads >> t.lanes_log2) + (thread >> t.lanes_log2);
    const int c0 = (group * lanes + lane) * 4;

    const int area = window.kernel_h * window.kernel_w, taps = Deep ? p.depths.kernel * area : area;
    for (int tap = thread >> t.lanes_log2; tap < taps; tap += threads >> t.lanes_log2) {
        const T* from = static_cast<const T*>(p.weight) + static_cast<std::int64_t>(tap) * p.weight_c + c0;
        weights[tap * lanes + lane] =
            c0 < p.weight_c ? widen<T>(*reinterpret_cast<const typename Raw4<T>::type*>(from)) : float4{};
    }
    const EpilogueParams& e = p.epilogue;
    float scale[4], bias[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool real = c0 + k < p.c; // padding becomes what 0 becomes: finite
        scale[k] = !real ? 0.0F : e.scale != nullptr ? __ldg(e.scale + c0 + k) : 1.0F;
        bias[k] = real && e.bias != nullptr ? __ldg(e.bias + c0 + k) : 0.0F;
    }
    __syncthreads();
    pdl_wait();
    if (strip >= t.strips || c0 >= p.y_stride) return;

    const int oh = strip % p.p, rest = strip / p.p, ow = rest % t.across * Columns, n = rest / t.across;
    const int h0 = oh * window.stride_h - window.pad_h, w0 = ow * window.stride_w - window.pad_w;
    const bool has = c0 < p.c_stride; // the result may have more padding than the input
    const std::int64_t pixel = (static_cast<std::int64_t>(n) * p.p + oh) * p.q + ow;
    const std::int32_t residual_type = e.residual_is_s8 != 0 ? type_s8 : p.output_type;
    const auto residual = [&](int c) { return load4(e.residual, residual_type, (pixel + c) * e.residual_stride + c0); };
    constexpr bool few = Columns <= 4;
    float4 added[few ? Columns : 1] = {};
    if constexpr (few) {
        if (e.residual != nullptr) {
#pragma unroll
            for (int c = 0; c < Columns; ++c)
                if (ow + c < p.q) added[c] = residual(c);
        }
    }
    float4 sums[Columns] = {};
    const auto images = [&](const T* image, const float4* weights_of_image) {
        const auto row_of = [&](int r, auto multiply) {
            const int h = h0 + r * window.dil_h;
            const bool row = has && static_cast<unsigned>(h) < static_cast<unsigned>(p.h);
            if (!few && !row && p.pad_word == 0) return;
            multiply(image + (static_cast<std::int64_t>(h) * p.w + w0) * p.c_pitch,
                     weights_of_image + r * window.kernel_w * lanes + lane, row);
        };
        if constexpr (Stride == 0) {
#pragma unroll 1
            for (int r = 0; r < window.kernel_h; ++r)
                row_of(r, [&](const T* from, const float4* with, bool row) {
#pragma unroll 1
                    for (int s = 0; s < window.kernel_w; ++s) {
                        const float4 w = with[s * lanes];
#pragma unroll
                        for (int c = 0; c < Columns; ++c) {
                            const int at = c * window.stride_w + s * window.dil_w;
                            typename Raw4<T>::type raw = around_image<T>(p.pad_word);
                            if (row && static_cast<unsigned>(w0 + at) < static_cast<unsigned>(p.w))
                                raw = *reinterpret_cast<const typename Raw4<T>::type*>(from + at * p.c_pitch);
                            const float4 x = widen<T>(raw);
                            sums[c].x = fmaf(x.x, w.x, sums[c].x);
                            sums[c].y = fmaf(x.y, w.y, sums[c].y);
                            sums[c].z = fmaf(x.z, w.z, sums[c].z);
                            sums[c].w = fmaf(x.w, w.w, sums[c].w);
                        }
                    }
                });
        } else if (few && window.kernel_w == Taps) {
            constexpr int rows_at_once = few ? (Columns <= 2 ? 4 : 3) : 1;
#pragma unroll rows_at_once
            for (int r = 0; r < window.kernel_h; ++r)
                row_of(r, [&](const T* from, const float4* with, bool row) {
                    multiply_taps<T, Columns, Taps, Stride>(sums, from, w0, row, with, lanes, p);
                });
        } else {
            constexpr int groups_at_once = few ? 3 : 1;
#pragma unroll 1
            for (int r = 0; r < window.kernel_h; ++r)
                row_of(r, [&](const T* from, const float4* with, bool row) {
                    int s = 0;
#pragma unroll groups_at_once
                    for (; s + Taps <= window.kernel_w; s += Taps)
                        multiply_taps<T, Columns, Taps, Stride>(sums, from + s * p.c_pitch, w0 + s, row,
                                                                with + s * lanes, lanes, p);
#pragma unroll 1
                    for (; s < window.kernel_w; ++s)
                        multiply_taps<T, Columns, 1, Stride>(sums, from + s * p.c_pitch, w0 + s, row, with + s * lanes,
                                                             lanes, p);
                });
        }
    };
    const T* input = static_cast<const T*>(p.input) + c0;
    const std::int64_t image_size = static_cast<std::int64_t>(p.h) * p.w * p.c_pitch;
    if constexpr (Deep) {
        const DepthParams& d = p.depths;
        const int sample = n / d.out, depth = (n - sample * d.out) * d.stride - d.before;
#pragma unroll 1
        for (int t = 0; t < d.kernel; ++t) {
            const int at = depth + t * d.dilation;
            if (static_cast<unsigned>(at) < static_cast<unsigned>(d.in))
                images(input + (static_cast<std::int64_t>(sample) * d.in + at) * image_size,
                       weights + t * area * lanes);
        }
    } else {
        images(input + n * image_size, weights);
    }
    pdl_trigger();

#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        if (ow + c >= p.q) break;
        float v[4] = {fmaf(sums[c].x, scale[0], bias[0]), fmaf(sums[c].y, scale[1], bias[1]),
                      fmaf(sums[c].z, scale[2], bias[2]), fmaf(sums[c].w, scale[3], bias[3])};
        if (e.residual != nullptr) {
            const float4 other = few ? added[few ? c : 0] : residual(c);
            const float others[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (c0 + k < p.c) v[k] = fmaf(others[k], e.residual_scale, v[k]);
        }
        activate4(v, e);
#pragma unroll
        for (float& x : v)
            x *= e.output_scale_inverse;
        store4(p.output, p.output_type, (pixel + c) * p.y_pitch + c0, v);
    }
}

template <class T, int Columns, int Taps, int Stride, bool Deep>
cudaError_t launch_one(const DepthwiseParams& p, const Work& t, std::size_t shared, cudaStream_t stream,
                       bool programmatic) {
    const auto kernel = depthwise_window<T, Columns, Taps, Stride, Deep>;
    if (shared > 48 << 10)
        if (const cudaError_t code =
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
            code != cudaSuccess)
            return code;
    const std::int64_t blocks = blocks_for(t.strips, threads >> t.lanes_log2) * std::int64_t{t.groups};
    if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
    return launch_kernel(kernel, static_cast<unsigned>(blocks), threads, shared, stream, programmatic, 1, p, t);
}

template <class T, int Taps, int Stride>
cudaError_t launch_columns(const DepthwiseParams& p, const Work& t, int columns, std::size_t shared,
                           cudaStream_t stream, bool programmatic) {
    switch (columns) {
        case 2: return launch_one<T, 2, Taps, Stride, false>(p, t, shared, stream, programmatic);
        case 4: return launch_one<T, 4, Taps, Stride, false>(p, t, shared, stream, programmatic);
        case 7: return launch_one<T, 7, Taps, Stride, false>(p, t, shared, stream, programmatic);
        case 14: return launch_one<T, 14, Taps, Stride, false>(p, t, shared, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

/// Rows of 3 taps, as 3 x 3 x 3 has them; the others tap by tap.
template <class T>
cudaError_t launch_deep(const DepthwiseParams& p, const Work& t, int columns, std::size_t shared, cudaStream_t stream,
                        bool programmatic) {
    const int taps = taps_at_once(p), stride = p.window.stride_w;
    if (taps != 3) return launch_one<T, general_columns, 1, 0, true>(p, t, shared, stream, programmatic);
    if (stride == 1)
        return columns == 2 ? launch_one<T, 2, 3, 1, true>(p, t, shared, stream, programmatic)
                            : launch_one<T, 4, 3, 1, true>(p, t, shared, stream, programmatic);
    return columns == 2 ? launch_one<T, 2, 3, 2, true>(p, t, shared, stream, programmatic)
                        : launch_one<T, 4, 3, 2, true>(p, t, shared, stream, programmatic);
}

template <class T>
cudaError_t launch_type(const DepthwiseParams& p, const Work& t, int columns, std::size_t shared, cudaStream_t stream,
                        bool programmatic) {
    const int taps = taps_at_once(p), stride = p.window.stride_w;
    if (is_deep(p)) return launch_deep<T>(p, t, columns, shared, stream, programmatic);
    if (taps == 0) return launch_one<T, general_columns, 1, 0, false>(p, t, shared, stream, programmatic);
    if (taps == 3 && stride == 1) return launch_columns<T, 3, 1>(p, t, columns, shared, stream, programmatic);
    if (taps == 5 && stride == 1) return launch_columns<T, 5, 1>(p, t, columns, shared, stream, programmatic);
    if (taps == 7 && stride == 1) return launch_columns<T, 7, 1>(p, t, columns, shared, stream, programmatic);
    if (taps == 3 && stride == 2) return launch_columns<T, 3, 2>(p, t, columns, shared, stream, programmatic);
    if (taps == 5 && stride == 2) return launch_columns<T, 5, 2>(p, t, columns, shared, stream, programmatic);
    return cudaErrorInvalidValue;
}

} // namespace lathe::cuda::kernels::depthwise
