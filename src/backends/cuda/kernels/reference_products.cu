// One thread (or warp) an output element, any layout and type, no shared memory: the yardstick of every other kernel
// and what runs where nothing faster takes an op. Sums of f32 are in double, of f16 and bf16 in f32, of s8 in s32.

#include "backends/cuda/kernels/reference.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace reference;

template <class X>
struct Sum {
    using type = float;
};
template <>
struct Sum<float> {
    using type = double;
};
template <>
struct Sum<std::int8_t> {
    using type = std::int32_t;
};
template <class X, class W>
__device__ __forceinline__ auto product(X x, W w) {
    if constexpr (sizeof(X) == 1 && sizeof(W) == 1)
        return static_cast<std::int32_t>(x) * static_cast<std::int32_t>(w);
    else if constexpr (sizeof(X) == 4 && sizeof(W) == 4)
        return static_cast<double>(x) * static_cast<double>(w);
    else if constexpr (sizeof(X) == 4)
        return to_float(from_float<W>(x)) * to_float(w); // the products are of the weight's type
    else
        return to_float(x) * to_float(w);
}

__device__ __forceinline__ float epilogue_at(float acc, std::int64_t channel, float residual, const EpilogueParams& e) {
    const float scale = e.scale != nullptr ? e.scale[channel] : 1.0F;
    const float bias = e.bias != nullptr ? e.bias[channel] : 0.0F;
    return finish(acc, scale, bias, residual, e);
}

/// What lies around an image; only int8 has anything but 0.
template <class X>
__device__ __forceinline__ X around(std::int32_t pad_value) {
    if constexpr (sizeof(X) == 1)
        return static_cast<X>(pad_value);
    else
        return X();
}

template <class X, class W>
__device__ float conv_at(const ConvGeneralParams& p, std::int64_t n, std::int64_t k, std::int64_t oh, std::int64_t ow) {
    const std::int64_t sample = n / p.depths.out, depth = n % p.depths.out * p.depths.stride - p.depths.before;
    const W* w = static_cast<const W*>(p.weight);
    const std::int64_t group_channels = p.depthwise != 0 ? 1 : p.x.dims[1] / p.groups;
    const std::int64_t first = p.depthwise != 0 ? k : k / (p.y.dims[1] / p.groups) * group_channels;
    using S = std::conditional_t<sizeof(X) == sizeof(W), typename Sum<X>::type, float>;
    S sum = 0;
    for (int tap_row = 0; tap_row < p.depths.kernel * p.window.kernel_h; ++tap_row) {
        const int r = tap_row % p.window.kernel_h;
        const std::int64_t image = depth + tap_row / p.window.kernel_h * p.depths.dilation;
        if (image < 0 || image >= p.depths.in) continue;
        const X* x = static_cast<const X*>(p.x.data) + (sample * p.depths.in + image) * p.x.strides[0];
        const std::int64_t h = oh * p.window.stride_h - p.window.pad_h + r * p.window.dil_h;
        const bool row = h >= 0 && h < p.x.dims[2];
        if (!row && p.pad_value == 0) continue;
        for (int s = 0; s < p.window.kernel_w; ++s) {
            const std::int64_t v = ow * p.window.stride_w - p.window.pad_w + s * p.window.dil_w;
            const bool inside = row && v >= 0 && v < p.x.dims[3];
            if (!inside && p.pad_value == 0) continue;
            const X* from = x + h * p.x.strides[2] + v * p.x.strides[3] + first * p.x.strides[1];
            const std::int64_t tap = tap_row * p.window.kernel_w + s;
            const W* with = p.depthwise != 0 ? w + tap * p.weight_c + k
                                             : w + (k * p.window.kernel_h * p.window.kernel_w + tap) * p.weight_c;
            for (std::int64_t c = 0; c < group_channels; ++c)
                sum += static_cast<S>(product(inside ? from[c * p.x.strides[1]] : around<X>(p.pad_value), with[c]));
        }
    }
    return static_cast<float>(sum);
}

template <class X, class W>
__global__ void conv_general(const __grid_constant__ ConvGeneralParams p, std::int64_t count, bool nhwc) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    std::int64_t at[max_rank];
    decompose(i, p.y, nhwc, at);
    const std::int64_t to = offset_of(p.y, at);
    if (at[1] >= p.y.dims[1]) {
        store_any(p.y.data, p.y.type, to, 0.0F);
        return;
    }
    float value;
    if (p.pooled != 0) {
        value = -INFINITY;
        for (int r = 0; r < p.pool.kernel_h; ++r)
            for (int s = 0; s < p.pool.kernel_w; ++s) {
                const std::int64_t h = at[2] * p.pool.stride_h - p.pool.pad_h + r * p.pool.dil_h;
                const std::int64_t v = at[3] * p.pool.stride_w - p.pool.pad_w + s * p.pool.dil_w;
                if (h < 0 || v < 0 || h >= p.conv_h || v >= p.conv_w) continue;
                value = fmaxf(value, epilogue_at(conv_at<X, W>(p, at[0], at[1], h, v), at[1], 0.0F, p.epilogue));
            }
    } else {
        const float residual = p.epilogue.residual != nullptr
                                   ? load_any(p.epilogue.residual, p.residual.type, offset_of(p.residual, at))
                                   : 0.0F;
        value = epilogue_at(conv_at<X, W>(p, at[0], at[1], at[2], at[3]), at[1], residual, p.epilogue);
    }
    store_any(p.y.data, p.y.type, to, value);
}

template <class X, class W>
__global__ void gemm_general(const __grid_constant__ GemmParams p) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= p.m * p.output_stride) return;
    const std::int64_t row = i / p.output_stride, column = i % p.output_stride;
    if (column >= p.n) {
        store_any(p.output, p.output_type, i, 0.0F);
        return;
    }
    const X* x = static_cast<const X*>(p.input) + row * p.k;
    const W* w = static_cast<const W*>(p.weight) + column * p.k;
    using S = std::conditional_t<sizeof(X) == sizeof(W), typename Sum<X>::type, float>;
    S sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k)
        sum += static_cast<S>(product(x[k], w[k]));
    const float residual =
        p.epilogue.residual != nullptr
            ? load_any(p.epilogue.residual, p.epilogue.residual_is_s8 != 0 ? type_s8 : p.output_type, i)
            : 0.0F;
    store_any(p.output, p.output_type, i, epilogue_at(static_cast<float>(sum), column, residual, p.epilogue));
}

__global__ void batched_gemm_general(const __grid_constant__ BatchedGemmParams p) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= p.batch * p.m * p.n) return;
    const std::int64_t column = i % p.n, row = i / p.n % p.m;
    std::int64_t b = i / (p.n * p.m), a_at = 0, b_at = 0;
    for (int d = p.outer_rank - 1; d >= 0; --d) {
        const std::int64_t index = b % p.outer_dims[d];
        b /= p.outer_dims[d];
        a_at += index * p.a_strides[d];
        b_at += index * p.b_strides[d];
    }
    double sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
        const std::int64_t from_a = a_at + (p.transpose_a != 0 ? k * p.a_pitch + row : row * p.a_pitch + k);
        const std::int64_t from_b = b_at + (p.transpose_b != 0 ? column * p.k + k : k * p.n + column);
        sum += static_cast<double>(load_any(p.a, p.a_type, from_a)) * load_any(p.b, p.b_type, from_b);
    }
    store_any(p.c, p.c_type, i, static_cast<float>(sum) * p.alpha * p.a_scale * p.b_scale / p.c_scale);
}

/// One warp a row of one head: the scores are computed twice, first for the maximum, then for the sums.
__global__ void attention_general(const __grid_constant__ AttentionParams p) {
    pdl_wait();
    const std::int64_t row_index = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (row_index >= p.batch * p.heads * p.q_len) return;
    const int lane = threadIdx.x % 32;
    const std::int64_t row = row_index % p.q_len, head = row_index / p.q_len % p.heads,
                       batch = row_index / (p.q_len * p.heads);
    const std::int64_t q_at = batch * p.q_strides[0] + row * p.q_strides[1] + head * p.q_strides[2];
    const std::int64_t key_head = head / (p.heads / p.kv_heads);
    const std::int64_t k_at = batch * p.k_strides[0] + key_head * p.k_strides[2];
    const std::int64_t v_at = batch * p.v_strides[0] + key_head * p.v_strides[2];
    const std::int64_t o_at = batch * p.o_strides[0] + row * p.o_strides[1] + head * p.o_strides[2];
    const auto masked = [&](const AttentionMask& mask, std::int64_t key) {
        return load_any(mask.data, mask.type,
                        batch % mask.batches * mask.batch_stride + head * mask.head_stride + row * mask.row_stride +
                            key);
    };
    std::int64_t keys = p.kv_len;
    if (p.causal != 0) keys = row + 1 + p.kv_len - p.q_len;
    keys = keys < 0 ? 0 : keys > p.kv_len ? p.kv_len : keys;
    float q[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
        q[i] = lane + 32 * i < p.depth ? load_any(p.q, p.type, q_at + lane + 32 * i) : 0.0F;
    const auto score = [&](std::int64_t key) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (lane + 32 * i < p.depth)
                part += q[i] * load_any(p.k, p.type, k_at + key * p.k_strides[1] + lane + 32 * i);
        part = warp_sum(part) * p.scale;
        if (p.masks > 0) part += masked(p.mask, key);
        if (p.masks > 1) part += masked(p.second_mask, key);
        return part;
    };
    float largest = -INFINITY;
    for (std::int64_t key = 0; key < keys; ++key)
        largest = fmaxf(largest, score(key));
    // Of a row without scores: a difference of infinities, NaN, where it is not to be 0.
    const bool empty = p.empty_is_zero != 0 && largest == -INFINITY;
    float sums[8] = {}, total = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
        const float weight = empty ? 0.0F : expf(score(key) - largest);
        total += weight;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (lane + 32 * i < p.value_depth)
                sums[i] += weight * load_any(p.v, p.type, v_at + key * p.v_strides[1] + lane + 32 * i);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (lane + 32 * i < p.value_depth)
            store_any(p.output, p.output_type, o_at + lane + 32 * i, empty ? 0.0F : sums[i] / total / p.output_scale);
}

template <class X, class W>
cudaError_t conv_with(const ConvGeneralParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = walked_count(p.y);
    return launch_kernel(conv_general<X, W>, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count,
                         is_nhwc(p.y));
}
template <class X, class W>
cudaError_t gemm_with(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(gemm_general<X, W>, blocks_for(p.m * p.output_stride, threads), threads, 0, stream,
                         programmatic, 1, p);
}

} // namespace

cudaError_t launch_conv_general(const ConvGeneralParams& p, cudaStream_t stream, bool programmatic) {
    const int x = p.x.type, w = p.weight_type;
    if (x == type_f32 && w == type_f32) return conv_with<float, float>(p, stream, programmatic);
    if (x == type_f16 && w == type_f16) return conv_with<__half, __half>(p, stream, programmatic);
    if (x == type_bf16 && w == type_bf16) return conv_with<__nv_bfloat16, __nv_bfloat16>(p, stream, programmatic);
    if (x == type_s8 && w == type_s8) return conv_with<std::int8_t, std::int8_t>(p, stream, programmatic);
    if (x == type_f32 && w == type_f16) return conv_with<float, __half>(p, stream, programmatic);
    if (x == type_f32 && w == type_bf16) return conv_with<float, __nv_bfloat16>(p, stream, programmatic);
    return cudaErrorInvalidValue;
}

cudaError_t launch_gemm_general(const GemmParams& p, cudaStream_t stream, bool programmatic) {
    const int x = p.input_type, w = p.weight_type;
    if (x == type_f32 && w == type_f32) return gemm_with<float, float>(p, stream, programmatic);
    if (x == type_f16 && w == type_f16) return gemm_with<__half, __half>(p, stream, programmatic);
    if (x == type_bf16 && w == type_bf16) return gemm_with<__nv_bfloat16, __nv_bfloat16>(p, stream, programmatic);
    if (x == type_s8 && w == type_s8) return gemm_with<std::int8_t, std::int8_t>(p, stream, programmatic);
    if (x == type_f32 && w == type_f16) return gemm_with<float, __half>(p, stream, programmatic);
    if (x == type_f32 && w == type_bf16) return gemm_with<float, __nv_bfloat16>(p, stream, programmatic);
    return cudaErrorInvalidValue;
}

cudaError_t launch_batched_gemm_general(const BatchedGemmParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(batched_gemm_general, blocks_for(p.batch * p.m * p.n, threads), threads, 0, stream,
                         programmatic, 1, p);
}

cudaError_t launch_attention_general(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (p.depth > 256 || p.value_depth > 256) return cudaErrorInvalidValue;
    return launch_kernel(attention_general, blocks_for(p.batch * p.heads * p.q_len, threads / 32), threads, 0, stream,
                         programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
