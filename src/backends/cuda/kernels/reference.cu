// One thread (or warp) an output element, any layout and type, no shared memory: the yardstick of every other kernel
// and what runs where nothing faster takes an op. Sums of f32 are in double, of f16 and bf16 in f32, of s8 in s32.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

/// Number of elements walked: with the padding channels of nhwc, which are written as zeros.
__host__ __device__ inline std::int64_t walked(const TensorDesc& y, int dim) {
    return dim == 1 && y.channel_stride > y.dims[1] ? y.channel_stride : y.dims[dim];
}
std::int64_t walked_count(const TensorDesc& y) {
    std::int64_t count = 1;
    for (int d = 0; d < y.rank; ++d)
        count *= walked(y, d);
    return count;
}
/// Index `i` of the walk as one index a dimension.
__device__ __forceinline__ void decompose(std::int64_t i, const TensorDesc& y, bool nhwc, std::int64_t* index) {
    if (nhwc && y.rank > 1) {
        const std::int64_t channels = walked(y, 1);
        index[1] = i % channels;
        i /= channels;
    }
    for (int d = y.rank - 1; d >= 0; --d) {
        if (nhwc && d == 1) continue;
        const std::int64_t size = walked(y, d);
        index[d] = i % size;
        i /= size;
    }
}
__device__ __forceinline__ std::int64_t offset_of(const TensorDesc& t, const std::int64_t* index) {
    std::int64_t offset = 0;
    for (int d = 0; d < t.rank; ++d)
        offset += index[d] * t.strides[d];
    return offset;
}

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

template <class X, class W>
__device__ float conv_at(const ConvGeneralParams& p, std::int64_t n, std::int64_t k, std::int64_t oh, std::int64_t ow) {
    const X* x = static_cast<const X*>(p.x.data) + n * p.x.strides[0];
    const W* w = static_cast<const W*>(p.weight);
    const std::int64_t group_channels = p.depthwise != 0 ? 1 : p.x.dims[1] / p.groups;
    const std::int64_t first = p.depthwise != 0 ? k : k / (p.y.dims[1] / p.groups) * group_channels;
    using S = std::conditional_t<sizeof(X) == sizeof(W), typename Sum<X>::type, float>;
    S sum = 0;
    for (int r = 0; r < p.window.kernel_h; ++r) {
        const std::int64_t h = oh * p.window.stride_h - p.window.pad_h + r * p.window.dil_h;
        if (h < 0 || h >= p.x.dims[2]) continue;
        for (int s = 0; s < p.window.kernel_w; ++s) {
            const std::int64_t v = ow * p.window.stride_w - p.window.pad_w + s * p.window.dil_w;
            if (v < 0 || v >= p.x.dims[3]) continue;
            const X* from = x + h * p.x.strides[2] + v * p.x.strides[3] + first * p.x.strides[1];
            const std::int64_t tap = r * p.window.kernel_w + s;
            const W* with = p.depthwise != 0 ? w + tap * p.weight_c + k
                                             : w + (k * p.window.kernel_h * p.window.kernel_w + tap) * p.weight_c;
            for (std::int64_t c = 0; c < group_channels; ++c)
                sum += static_cast<S>(product(from[c * p.x.strides[1]], with[c]));
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
        const std::int64_t from_a = a_at + (p.transpose_a != 0 ? k * p.m + row : row * p.k + k);
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
    const std::int64_t k_at = batch * p.k_strides[0] + head * p.k_strides[2];
    const std::int64_t v_at = batch * p.v_strides[0] + head * p.v_strides[2];
    const std::int64_t o_at = batch * p.o_strides[0] + row * p.o_strides[1] + head * p.o_strides[2];
    const std::int64_t mask_at = batch * p.mask_batch_stride + row * p.mask_row_stride;
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
        return p.mask != nullptr ? part + load_any(p.mask, p.mask_type, mask_at + key) : part;
    };
    float largest = -INFINITY;
    for (std::int64_t key = 0; key < p.kv_len; ++key)
        largest = fmaxf(largest, score(key));
    float sums[8] = {}, total = 0;
    for (std::int64_t key = 0; key < p.kv_len; ++key) {
        const float weight = expf(score(key) - largest);
        total += weight;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (lane + 32 * i < p.depth)
                sums[i] += weight * load_any(p.v, p.type, v_at + key * p.v_strides[1] + lane + 32 * i);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (lane + 32 * i < p.depth)
            store_any(p.output, p.output_type, o_at + lane + 32 * i, sums[i] / total / p.output_scale);
}

__global__ void pool_general(const __grid_constant__ PoolParams p, std::int64_t count, bool nhwc) {
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
    float largest = -INFINITY, sum = 0;
    int inside = 0, padded = 0;
    for (int r = 0; r < p.window.kernel_h; ++r)
        for (int s = 0; s < p.window.kernel_w; ++s) {
            const std::int64_t h = at[2] * p.window.stride_h - p.window.pad_h + r * p.window.dil_h;
            const std::int64_t w = at[3] * p.window.stride_w - p.window.pad_w + s * p.window.dil_w;
            if (h < p.x.dims[2] + p.window.pad_bottom && w < p.x.dims[3] + p.window.pad_right) ++padded;
            if (h < 0 || w < 0 || h >= p.x.dims[2] || w >= p.x.dims[3]) continue;
            const float v =
                load_any(p.x.data, p.x.type,
                         at[0] * p.x.strides[0] + at[1] * p.x.strides[1] + h * p.x.strides[2] + w * p.x.strides[3]);
            largest = fmaxf(largest, v);
            sum += v;
            ++inside;
        }
    const int divisor = p.count_pad != 0 ? padded : inside;
    const float v = p.average != 0 ? sum / static_cast<float>(divisor > 0 ? divisor : 1) : largest;
    store_any(p.y.data, p.y.type, to, v * p.rescale);
}

__global__ void global_pool_general(const __grid_constant__ GlobalPoolParams p, std::int64_t channels) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (i >= p.x.dims[0] * channels) return;
    const int lane = threadIdx.x % 32;
    const std::int64_t n = i / channels, c = i % channels, pixels = p.x.dims[2] * p.x.dims[3];
    float sum = 0, largest = -INFINITY;
    if (c < p.x.dims[1])
        for (std::int64_t at = lane; at < pixels; at += 32) {
            const float v = load_any(p.x.data, p.x.type,
                                     n * p.x.strides[0] + c * p.x.strides[1] + at / p.x.dims[3] * p.x.strides[2] +
                                         at % p.x.dims[3] * p.x.strides[3]);
            sum += v;
            largest = fmaxf(largest, v);
        }
    sum = warp_sum(sum);
    largest = warp_max(largest);
    const float v = p.average != 0 ? sum / static_cast<float>(pixels) : largest;
    if (lane == 0)
        store_any(p.y.data, p.y.type, n * p.y.strides[0] + c * p.y.strides[1], c < p.x.dims[1] ? v * p.rescale : 0.0F);
}

__global__ void softmax_general(const __grid_constant__ SoftmaxParams p) {
    pdl_wait();
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int lane = threadIdx.x % 32;
    const auto value = [&](std::int64_t i) { return load_any(p.x, p.x_type, row * p.columns + i) * p.x_scale; };
    float largest = -INFINITY, total = 0;
    for (std::int64_t i = lane; i < p.columns; i += 32)
        largest = fmaxf(largest, value(i));
    largest = warp_max(largest);
    for (std::int64_t i = lane; i < p.columns; i += 32)
        total += expf(value(i) - largest);
    total = warp_sum(total);
    for (std::int64_t i = lane; i < p.columns; i += 32) {
        const float v = value(i) - largest;
        store_any(p.y, p.y_type, row * p.columns + i, (p.log != 0 ? v - logf(total) : expf(v) / total) / p.y_scale);
    }
}

__global__ void layer_norm_general(const __grid_constant__ LayerNormParams p) {
    pdl_wait();
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int lane = threadIdx.x % 32;
    const auto value = [&](std::int64_t i) {
        const std::int64_t at = row * p.columns + i;
        const float x = load_any(p.x, p.x_type, at) * p.x_scale;
        return p.residual != nullptr ? x + load_any(p.residual, p.residual_type, at) * p.residual_scale : x;
    };
    float sum = 0, squares = 0;
    for (std::int64_t i = lane; i < p.columns; i += 32)
        sum += value(i);
    const float mean = warp_sum(sum) / static_cast<float>(p.columns);
    for (std::int64_t i = lane; i < p.columns; i += 32)
        squares += (value(i) - mean) * (value(i) - mean);
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(p.columns) + p.epsilon);
    for (std::int64_t i = lane; i < p.columns; i += 32) {
        const std::int64_t at = row * p.columns + i;
        const float x = value(i);
        float y = (x - mean) * factor * (p.gamma != nullptr ? p.gamma[i] : 1.0F);
        if (p.beta != nullptr) y += p.beta[i];
        if (p.sum != nullptr) store_any(p.sum, p.sum_type, at, x / p.sum_scale);
        store_any(p.y, p.y_type, at, y / p.y_scale);
        if (p.quantized != nullptr) static_cast<std::int8_t*>(p.quantized)[at] = saturate_s8(y / p.quantized_scale);
    }
}

__global__ void reduce_general(const __grid_constant__ ReduceParams p) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    const std::int64_t outer = p.x.dims[0], reduced = p.x.dims[1], inner = p.x.dims[2];
    if (i >= outer * inner) return;
    const int lane = threadIdx.x % 32;
    const std::int64_t o = i / inner, n = i % inner;
    // ReduceKind: sum, mean, max, min, prod, l2
    float value = p.kind == 2 ? -INFINITY : p.kind == 3 ? INFINITY : p.kind == 4 ? 1.0F : 0.0F;
    for (std::int64_t r = lane; r < reduced; r += 32) {
        const float x = load_any(p.x.data, p.x.type, (o * reduced + r) * inner + n) * p.x.scale;
        if (p.kind == 2)
            value = fmaxf(value, x);
        else if (p.kind == 3)
            value = fminf(value, x);
        else if (p.kind == 4)
            value *= x;
        else if (p.kind == 5)
            value += x * x;
        else
            value += x;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffU, value, offset);
        value = p.kind == 2   ? fmaxf(value, other)
                : p.kind == 3 ? fminf(value, other)
                : p.kind == 4 ? value * other
                              : value + other;
    }
    if (p.kind == 1) value /= static_cast<float>(reduced);
    if (p.kind == 5) value = sqrtf(value);
    if (lane == 0) store_any(p.y.data, p.y.type, i, value / p.y.scale);
}

__global__ void gather_general(const __grid_constant__ GatherParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    const std::int64_t column = i % p.inner, index = i / p.inner % p.index_count, outer = i / (p.inner * p.index_count);
    if (p.count == 1 && p.table_types[0] == p.y_type && p.y_type >= type_s32) { // no detour through float
        const std::int64_t at = index % p.index_counts[0];
        std::int64_t row = p.index_types[0] == type_s64 ? static_cast<const std::int64_t*>(p.indices[0])[at]
                                                        : static_cast<const std::int32_t*>(p.indices[0])[at];
        if (row < 0) row += p.table_rows[0];
        row = row < 0 ? 0 : (row >= p.table_rows[0] ? p.table_rows[0] - 1 : row);
        const std::int64_t from = (outer * p.table_rows[0] + row) * p.inner + column;
        if (p.y_type == type_s64)
            static_cast<std::int64_t*>(p.y)[i] = static_cast<const std::int64_t*>(p.tables[0])[from];
        else if (p.y_type == type_s32)
            static_cast<std::int32_t*>(p.y)[i] = static_cast<const std::int32_t*>(p.tables[0])[from];
        else
            static_cast<std::uint8_t*>(p.y)[i] = static_cast<const std::uint8_t*>(p.tables[0])[from];
        return;
    }
    float sum = 0;
    for (int t = 0; t < p.count; ++t) {
        const std::int64_t at = index % p.index_counts[t];
        std::int64_t row = p.index_types[t] == type_s64 ? static_cast<const std::int64_t*>(p.indices[t])[at]
                                                        : static_cast<const std::int32_t*>(p.indices[t])[at];
        if (row < 0) row += p.table_rows[t];
        row = row < 0 ? 0 : (row >= p.table_rows[t] ? p.table_rows[t] - 1 : row); // never outside the table
        sum += load_any(p.tables[t], p.table_types[t], (outer * p.table_rows[t] + row) * p.inner + column) *
               p.table_scales[t];
    }
    store_any(p.y, p.y_type, i, sum / p.y_scale);
}

__global__ void copy_general(const __grid_constant__ CopyParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    std::int64_t at[max_rank];
    decompose(i, p.y, p.nhwc_order != 0, at);
    const std::int64_t to = offset_of(p.y, at);
    if (p.y.rank > 1 && at[1] >= p.y.dims[1]) {
        store_any(p.y.data, p.y.type, to, 0.0F);
        return;
    }
    const std::int64_t from = offset_of(p.x, at);
    if (p.x.type == p.y.type && p.x.scale == p.y.scale) {
        switch (p.x.type) {
            case type_s64:
                static_cast<std::int64_t*>(p.y.data)[to] = static_cast<const std::int64_t*>(p.x.data)[from];
                break;
            case type_f32:
            case type_s32:
                static_cast<std::int32_t*>(p.y.data)[to] = static_cast<const std::int32_t*>(p.x.data)[from];
                break;
            case type_f16:
            case type_bf16:
                static_cast<std::uint16_t*>(p.y.data)[to] = static_cast<const std::uint16_t*>(p.x.data)[from];
                break;
            default: static_cast<std::uint8_t*>(p.y.data)[to] = static_cast<const std::uint8_t*>(p.x.data)[from]; break;
        }
        return;
    }
    if (p.x.type >= type_s32 && p.x.type <= type_s64 && p.y.type >= type_s32 && p.y.type <= type_s64) {
        const std::int64_t v = p.x.type == type_s64 ? static_cast<const std::int64_t*>(p.x.data)[from]
                                                    : static_cast<const std::int32_t*>(p.x.data)[from];
        if (p.y.type == type_s64)
            static_cast<std::int64_t*>(p.y.data)[to] = v;
        else
            static_cast<std::int32_t*>(p.y.data)[to] = static_cast<std::int32_t>(v);
        return;
    }
    float v = load_any(p.x.data, p.x.type, from) * p.x.scale;
    if (p.y.type == type_f16) v = fminf(fmaxf(v, -65504.0F), 65504.0F); // masks of -3.4e38 stay finite
    store_any(p.y.data, p.y.type, to, v / p.y.scale);
}

__device__ float source_position(const ResizeParams& p, std::int64_t i, int d) {
    const float scale = p.scales[d], x = static_cast<float>(i);
    const float in = static_cast<float>(p.x.dims[d]), out = static_cast<float>(p.y.dims[d]);
    switch (p.coordinates) {
        case 1: return x / scale;
        case 2: return out > 1 ? x * (in - 1) / (out - 1) : 0.0F;
        case 3: return out > 1 ? (x + 0.5F) / scale - 0.5F : 0.0F;
        default: return (x + 0.5F) / scale - 0.5F;
    }
}
__device__ std::int64_t clamp_index(std::int64_t i, std::int64_t size) {
    return i < 0 ? 0 : (i >= size ? size - 1 : i);
}
/// Neighbours of a position along one dimension: first index and up to four weights.
__device__ void neighbours(const ResizeParams& p, float x, int d, std::int64_t& first, int& taps, float* weights) {
    if (p.x.dims[d] == p.y.dims[d] && p.scales[d] == 1.0F) {
        first = static_cast<std::int64_t>(rintf(x));
        taps = 1;
        weights[0] = 1;
        return;
    }
    if (p.mode == 0) {
        float at = 0;
        if (p.nearest == 2)
            at = floorf(x);
        else if (p.nearest == 3)
            at = ceilf(x);
        else if (p.nearest == 1)
            at = floorf(x + 0.5F);
        else
            at = ceilf(x - 0.5F);
        first = static_cast<std::int64_t>(at);
        taps = 1;
        weights[0] = 1;
    } else if (p.mode == 1) {
        const float base = floorf(x);
        first = static_cast<std::int64_t>(base);
        taps = 2;
        weights[1] = x - base;
        weights[0] = 1 - weights[1];
    } else {
        const float base = floorf(x), t = x - base, a = p.cubic_a;
        first = static_cast<std::int64_t>(base) - 1;
        taps = 4;
        weights[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
        weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
        weights[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
        weights[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
    }
}
/// Interpolates over the last two dims; the others are taken as they are.
__global__ void resize_general(const __grid_constant__ ResizeParams p, std::int64_t count, bool nhwc) {
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
    const int dh = p.y.rank - 2, dw = p.y.rank - 1;
    std::int64_t base = 0;
    for (int d = 0; d < dh; ++d)
        base += at[d] * p.x.strides[d];
    std::int64_t h0 = 0, w0 = 0;
    int h_taps = 1, w_taps = 1;
    float h_weights[4], w_weights[4];
    neighbours(p, source_position(p, at[dh], dh), dh, h0, h_taps, h_weights);
    neighbours(p, source_position(p, at[dw], dw), dw, w0, w_taps, w_weights);
    float sum = 0;
    for (int r = 0; r < h_taps; ++r)
        for (int s = 0; s < w_taps; ++s) {
            const std::int64_t h = clamp_index(h0 + r, p.x.dims[dh]), w = clamp_index(w0 + s, p.x.dims[dw]);
            sum += h_weights[r] * w_weights[s] *
                   load_any(p.x.data, p.x.type, base + h * p.x.strides[dh] + w * p.x.strides[dw]);
        }
    store_any(p.y.data, p.y.type, to, sum * p.x.scale / p.y.scale);
}

/// Operations as lathe::cuda::PointOp numbers them.
__device__ float point_op(const PointCode& code, float a, float b, float c) {
    switch (code.op) {
        case 2: return a + b;
        case 3: return a - b;
        case 4: return a * b;
        case 5: return a / b;
        case 6: return fminf(a, b);
        case 7: return fmaxf(a, b);
        case 8: return powf(a, b);
        case 9: return -a;
        case 10: return fabsf(a);
        case 11: return expf(a);
        case 12: return logf(a);
        case 13: return sqrtf(a);
        case 14: return 1.0F / a;
        case 15: return erff(a);
        case 16: return tanhf(a);
        case 17: return 1.0F / (1.0F + expf(-a));
        case 18: return fmaxf(a, 0.0F);
        case 19: return fminf(fmaxf(a, code.x), code.y);
        case 20: return floorf(a);
        case 21: return ceilf(a);
        case 22: return rintf(a);
        case 23: return sinf(a);
        case 24: return cosf(a);
        case 25: return a == b ? 1.0F : 0.0F;
        case 26: return a < b ? 1.0F : 0.0F;
        case 27: return a > b ? 1.0F : 0.0F;
        case 28: return a == 0 ? 1.0F : 0.0F;
        case 29: return a != 0 && b != 0 ? 1.0F : 0.0F;
        case 30: return a != 0 || b != 0 ? 1.0F : 0.0F;
        case 31: return a != 0 ? b : c;
        default: return a;
    }
}
__global__ void pointwise_general(const __grid_constant__ PointwiseParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    std::int64_t at[max_rank];
    decompose(i, p.outputs[0], p.nhwc_order != 0, at);
    const bool padding = p.outputs[0].rank > 1 && at[1] >= p.outputs[0].dims[1];
    float registers[max_point_registers] = {};
    if (!padding)
        for (int k = 0; k < p.code_count; ++k) {
            const PointCode& code = p.code[k];
            float v;
            if (code.op == 0) {
                const TensorDesc& x = p.inputs[code.a];
                v = load_any(x.data, x.type, offset_of(x, at)) * x.scale;
            } else if (code.op == 1) {
                v = code.x;
            } else {
                v = point_op(code, registers[code.a], registers[code.b], registers[code.c]);
            }
            registers[k % max_point_registers] = v;
        }
    for (int o = 0; o < p.output_count; ++o)
        store_any(p.outputs[o].data, p.outputs[o].type, offset_of(p.outputs[o], at),
                  padding ? 0.0F : registers[p.results[o]] / p.outputs[o].scale);
}

bool is_nhwc(const TensorDesc& t) { return t.rank > 2 && t.strides[1] == 1; }

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
    if (p.depth > 256) return cudaErrorInvalidValue;
    return launch_kernel(attention_general, blocks_for(p.batch * p.heads * p.q_len, threads / 32), threads, 0, stream,
                         programmatic, 1, p);
}

cudaError_t launch_pool_general(const PoolParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = walked_count(p.y);
    return launch_kernel(pool_general, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count,
                         is_nhwc(p.y));
}

cudaError_t launch_global_pool_general(const GlobalPoolParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t channels = walked(p.y, 1);
    return launch_kernel(global_pool_general, blocks_for(p.x.dims[0] * channels, threads / 32), threads, 0, stream,
                         programmatic, 1, p, channels);
}

cudaError_t launch_softmax_general(const SoftmaxParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(softmax_general, blocks_for(p.rows, threads / 32), threads, 0, stream, programmatic, 1, p);
}

cudaError_t launch_layer_norm_general(const LayerNormParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(layer_norm_general, blocks_for(p.rows, threads / 32), threads, 0, stream, programmatic, 1, p);
}

cudaError_t launch_reduce_general(const ReduceParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(reduce_general, blocks_for(p.x.dims[0] * p.x.dims[2], threads / 32), threads, 0, stream,
                         programmatic, 1, p);
}

cudaError_t launch_gather_general(const GatherParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = p.outer * p.index_count * p.inner;
    return launch_kernel(gather_general, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count);
}

cudaError_t launch_copy_general(const CopyParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = walked_count(p.y);
    return launch_kernel(copy_general, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count);
}

cudaError_t launch_resize_general(const ResizeParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = walked_count(p.y);
    return launch_kernel(resize_general, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count,
                         is_nhwc(p.y));
}

cudaError_t launch_pointwise_general(const PointwiseParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = walked_count(p.outputs[0]);
    return launch_kernel(pointwise_general, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count);
}

} // namespace lathe::cuda::kernels
