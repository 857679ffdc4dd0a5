// Reference kernels of normalisations by the root mean square and by groups: right for all sizes and types, not fast.
#include "backends/cuda/kernels/reference_norm.hpp"

#include "backends/cuda/kernels/reference.cuh"

namespace lathe::cuda::kernels {

namespace {

using reference::threads;

__global__ void rms_norm_general(const __grid_constant__ LayerNormParams p) {
    pdl_wait();
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const auto value = [&](std::int64_t i) {
        const std::int64_t at = row * p.columns + i;
        const float x = load_any(p.x, p.x_type, at) * p.x_scale;
        return p.residual != nullptr ? x + load_any(p.residual, p.residual_type, at) * p.residual_scale : x;
    };
    float squares = 0;
    for (std::int64_t i = lane; i < p.columns; i += 32)
        squares += value(i) * value(i);
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(p.columns) + p.epsilon);
    for (std::int64_t i = lane; i < p.columns; i += 32) {
        const std::int64_t at = row * p.columns + i;
        const float x = value(i);
        float y = x * factor * (p.gamma != nullptr ? p.gamma[i] : 1.0F);
        if (p.beta != nullptr) y += p.beta[i];
        if (p.sum != nullptr) store_any(p.sum, p.sum_type, at, x / p.sum_scale);
        store_any(p.y, p.y_type, at, y / p.y_scale);
        if (p.quantized != nullptr) static_cast<std::int8_t*>(p.quantized)[at] = saturate_s8(y / p.quantized_scale);
    }
}

__global__ void group_factors_general(const __grid_constant__ GroupFactorsParams p) {
    pdl_wait();
    const std::int64_t which = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
    if (which >= p.x.dims[0] * p.groups) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t sample = which / p.groups, group = which % p.groups, channels = p.x.dims[1];
    const std::int64_t each = channels / p.groups, width = p.x.dims[3], count = p.x.dims[2] * width * each;
    const auto value = [&](std::int64_t i) {
        const std::int64_t pixel = i / each, channel = group * each + i % each;
        const std::int64_t at = sample * p.x.strides[0] + channel * p.x.strides[1] + pixel / width * p.x.strides[2] +
                                pixel % width * p.x.strides[3];
        return load_any(p.x.data, p.x.type, at) * p.x.scale;
    };
    float sum = 0, squares = 0;
    for (std::int64_t i = lane; i < count; i += 32)
        sum += value(i);
    const float mean = warp_sum(sum) / static_cast<float>(count);
    for (std::int64_t i = lane; i < count; i += 32)
        squares += (value(i) - mean) * (value(i) - mean);
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(count) + p.epsilon);
    const std::int64_t last = group + 1 == p.groups ? p.channel_stride : (group + 1) * each;
    for (std::int64_t c = group * each + lane; c < last; c += 32) {
        p.factor[sample * p.channel_stride + c] = c < channels ? factor : 0.0F;
        p.shift[sample * p.channel_stride + c] = c < channels ? -mean * factor : 0.0F;
    }
}

} // namespace

cudaError_t launch_rms_norm_general(const LayerNormParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(rms_norm_general, blocks_for(p.rows, threads / 32), threads, 0, stream, programmatic, 1, p);
}

cudaError_t launch_group_factors_general(const GroupFactorsParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(group_factors_general, blocks_for(p.x.dims[0] * p.groups, threads / 32), threads, 0, stream,
                         programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
