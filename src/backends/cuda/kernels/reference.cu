// One thread (or warp) an output element, any layout and type, no shared memory: the yardstick of every other kernel
// and what runs where nothing faster takes an op. Sums are in float.

#include "backends/cuda/kernels/reference.cuh"
#include "backends/cuda/kernels/stored.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace reference;

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
        move_number(p.y, i, p.tables[0], from, p.y_type);
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
        move_number(p.y.data, to, p.x.data, from, p.x.type);
        return;
    }
    if (is_whole(p.x.type) && is_whole(p.y.type)) {
        store_whole(p.y.data, p.y.type, to, load_whole(p.x.data, p.x.type, from));
        return;
    }
    float v = load_stored(p.x.data, p.x.type, from) * p.x.scale;
    if (p.y.type == type_f16) v = fminf(fmaxf(v, -65504.0F), 65504.0F); // masks of -3.4e38 stay finite
    store_stored(p.y.data, p.y.type, to, v / p.y.scale);
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
        case 33: return atanf(a);
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
                v = load_stored(x.data, x.type, offset_of(x, at)) * x.scale;
            } else if (code.op == 1) {
                v = code.x;
            } else {
                v = point_op(code, registers[code.a], registers[code.b], registers[code.c]);
            }
            registers[k % max_point_registers] = v;
        }
    for (int o = 0; o < p.output_count; ++o)
        store_stored(p.outputs[o].data, p.outputs[o].type, offset_of(p.outputs[o], at),
                     padding ? 0.0F : registers[p.results[o]] / p.outputs[o].scale);
}

} // namespace

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
