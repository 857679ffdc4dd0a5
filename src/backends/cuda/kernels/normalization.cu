// Layer normalisation and softmax: a row in the registers of one warp, or of a block for long rows.

#include <algorithm>

#include "backends/cuda/kernels/bytes.cuh"
#include "backends/cuda/kernels/vec8.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int block_warps = 4;

/// Sum over `Warps` warps; every thread of them gets it.
template <int Warps>
__device__ __forceinline__ float group_sum(float v, float* scratch) {
    v = warp_sum(v);
    if constexpr (Warps > 1) {
        __syncthreads(); // scratch of the sum before is read
        if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
        __syncthreads();
        v = 0;
#pragma unroll
        for (int w = 0; w < Warps; ++w)
            v += scratch[w];
    }
    return v;
}

/// A row: Warps warps, each thread Vectors groups of 8 columns. Warps == 1: block_warps rows a block.
template <int Warps, int Vectors>
__global__ void __launch_bounds__((Warps > 1 ? Warps : block_warps) * 32)
    layer_norm(const __grid_constant__ LayerNormParams p) {
    __shared__ float scratch[Warps];
    pdl_wait();
    pdl_trigger();
    const std::int64_t row = Warps > 1 ? static_cast<std::int64_t>(blockIdx.x)
                                       : static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int thread = static_cast<int>(Warps > 1 ? threadIdx.x : threadIdx.x % 32);
    constexpr int width = Warps * 32;
    const int groups = static_cast<int>(p.columns / 8);
    float x[Vectors][8];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
        const int g = thread + j * width;
        if (g < groups)
            load8(p.x, p.x_type, row * p.columns + g * 8, x[j]);
        else
#pragma unroll
            for (int i = 0; i < 8; ++i)
                x[j][i] = 0;
    }
    if (p.x_scale != 1) {
#pragma unroll
        for (int j = 0; j < Vectors; ++j)
#pragma unroll
            for (int i = 0; i < 8; ++i)
                x[j][i] *= p.x_scale;
    }
    if (p.residual != nullptr) {
#pragma unroll
        for (int j = 0; j < Vectors; ++j) {
            const int g = thread + j * width;
            if (g >= groups) continue;
            float r[8];
            load8(p.residual, p.residual_type, row * p.columns + g * 8, r);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                x[j][i] = fmaf(r[i], p.residual_scale, x[j][i]);
        }
    }
#pragma unroll
    for (int j = 0; j < Vectors; ++j)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            sum += x[j][i];
    const float mean = group_sum<Warps>(sum, scratch) / static_cast<float>(p.columns);
    float squares = 0;
#pragma unroll
    for (int j = 0; j < Vectors; ++j)
        if (thread + j * width < groups) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                squares += (x[j][i] - mean) * (x[j][i] - mean);
        }
    const float factor = rsqrtf(group_sum<Warps>(squares, scratch) / static_cast<float>(p.columns) + p.epsilon);
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
        const int g = thread + j * width;
        if (g >= groups) continue;
        const std::int64_t at = row * p.columns + g * 8;
        float y[8], v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            y[i] = (x[j][i] - mean) * factor;
        if (p.gamma != nullptr) {
            load8(p.gamma, type_f32, g * 8, v);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                y[i] *= v[i];
        }
        if (p.beta != nullptr) {
            load8(p.beta, type_f32, g * 8, v);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                y[i] += v[i];
        }
        if (p.sum != nullptr) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                v[i] = p.sum_scale != 1 ? x[j][i] / p.sum_scale : x[j][i];
            store8(p.sum, p.sum_type, at, v);
        }
        if (p.quantized != nullptr) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                v[i] = y[i] / p.quantized_scale;
            store8(p.quantized, type_s8, at, v);
        }
        if (p.y_scale != 1) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                y[i] /= p.y_scale;
        }
        store8(p.y, p.y_type, at, y);
    }
}

/// Halves in and out, a warp a row, with whatever follows known: where a transformer spends its time. Factors stay in
/// registers over the rows of a warp and are there before the kernel ahead is done; the next row is on its way while
/// one is finished.
template <int Vectors>
__global__ void __launch_bounds__(block_warps * 32)
    layer_norm_halves(const __grid_constant__ LayerNormParams p, float steps_a_unit) {
    const int lane = static_cast<int>(threadIdx.x % 32), groups = static_cast<int>(p.columns / 8);
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_warps;
    float gamma[Vectors][8], beta[Vectors][8];
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
        const int g = lane + j * 32;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            gamma[j][i] = 1, beta[j][i] = 0;
        if (g < groups && p.gamma != nullptr) load8(p.gamma, type_f32, g * 8, gamma[j]);
        if (g < groups && p.beta != nullptr) load8(p.beta, type_f32, g * 8, beta[j]);
    }
    const auto load = [&](const void* from, std::int64_t row, uint4(&raw)[Vectors]) {
#pragma unroll
        for (int j = 0; j < Vectors; ++j)
            if (lane + j * 32 < groups)
                raw[j] = *reinterpret_cast<const uint4*>(static_cast<const __half*>(from) + row * p.columns +
                                                         (lane + j * 32) * 8);
    };
    pdl_wait();
    pdl_trigger();
    std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / 32;
    uint4 raw[Vectors] = {}, residual[Vectors] = {};
    if (row < p.rows) {
        load(p.x, row, raw);
        if (p.residual != nullptr) load(p.residual, row, residual);
    }
    for (; row < p.rows; row += stride) {
        float x[Vectors][8];
        float sum = 0;
#pragma unroll
        for (int j = 0; j < Vectors; ++j) {
            unpack<__half>(raw[j], x[j]); // zeros behind the row's end
            if (p.residual != nullptr) {
                float r[8];
                unpack<__half>(residual[j], r);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    x[j][i] += r[i];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
                sum += x[j][i];
        }
        if (row + stride < p.rows) {
            load(p.x, row + stride, raw);
            if (p.residual != nullptr) load(p.residual, row + stride, residual);
        }
        const float mean = warp_sum(sum) / static_cast<float>(p.columns);
        float squares = 0;
#pragma unroll
        for (int j = 0; j < Vectors; ++j)
            if (lane + j * 32 < groups) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    squares = fmaf(x[j][i] - mean, x[j][i] - mean, squares);
            }
        const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(p.columns) + p.epsilon);
#pragma unroll
        for (int j = 0; j < Vectors; ++j) {
            if (lane + j * 32 >= groups) continue;
            const std::int64_t at = row * p.columns + (lane + j * 32) * 8;
            float y[8];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                y[i] = fmaf((x[j][i] - mean) * factor, gamma[j][i], beta[j][i]);
            if (p.sum != nullptr) store8(p.sum, type_f16, at, x[j]);
            store8(p.y, type_f16, at, y);
            if (p.quantized == nullptr) continue;
            std::uint32_t bits[8]; // to the nearest even int8, in the lowest byte
#pragma unroll
            for (int i = 0; i < 8; ++i)
                bits[i] = __float_as_uint(fminf(fmaxf(y[i] * steps_a_unit, -128.0F), 127.0F) + 12582912.0F);
            uint2 packed;
            packed.x = join_bytes(bits[0], bits[1], bits[2], bits[3]);
            packed.y = join_bytes(bits[4], bits[5], bits[6], bits[7]);
            *reinterpret_cast<uint2*>(static_cast<std::int8_t*>(p.quantized) + at) = packed;
        }
    }
}

/// One warp a row, Elements columns a lane, neighbouring lanes on neighbouring columns.
template <int Elements>
__global__ void __launch_bounds__(block_warps * 32) softmax(const __grid_constant__ SoftmaxParams p) {
    pdl_wait();
    pdl_trigger();
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / 32;
    if (row >= p.rows) return;
    const int lane = static_cast<int>(threadIdx.x % 32), columns = static_cast<int>(p.columns);
    float v[Elements];
    float largest = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < Elements; ++i) {
        const int c = lane + 32 * i;
        v[i] = c < columns ? load_any(p.x, p.x_type, row * columns + c) * p.x_scale : -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < Elements; ++i)
        largest = fmaxf(largest, v[i]);
    largest = warp_max(largest);
#pragma unroll
    for (int i = 0; i < Elements; ++i) {
        const float e = expf(v[i] - largest);
        total += lane + 32 * i < columns ? e : 0.0F;
        v[i] = p.log != 0 ? v[i] - largest : e;
    }
    total = warp_sum(total);
    const float log_total = p.log != 0 ? logf(total) : 0.0F;
#pragma unroll
    for (int i = 0; i < Elements; ++i) {
        const int c = lane + 32 * i;
        if (c < columns)
            store_any(p.y, p.y_type, row * columns + c, (p.log != 0 ? v[i] - log_total : v[i] / total) / p.y_scale);
    }
}

/// One block of 4 warps a row, 8 neighbouring columns a thread: long rows whose length is a multiple of 8.
__global__ void __launch_bounds__(128) softmax_long(const __grid_constant__ SoftmaxParams p) {
    __shared__ float largest_of[4], total_of[4];
    pdl_trigger();
    pdl_wait();
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    const bool mine = thread * 8 < p.columns;
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * p.columns + thread * 8;
    float v[8], largest = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        v[i] = -INFINITY;
    if (mine) load8(p.x, p.x_type, at, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (mine) v[i] *= p.x_scale;
        largest = fmaxf(largest, v[i]);
    }
    largest = warp_max(largest);
    if (thread % 32 == 0) largest_of[warp] = largest;
    __syncthreads();
    largest = fmaxf(fmaxf(largest_of[0], largest_of[1]), fmaxf(largest_of[2], largest_of[3]));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        v[i] -= largest;
        const float e = expf(v[i]);
        total += mine ? e : 0.0F;
        if (p.log == 0) v[i] = e;
    }
    total = warp_sum(total);
    if (thread % 32 == 0) total_of[warp] = total;
    __syncthreads();
    if (!mine) return;
    total = total_of[0] + total_of[1] + total_of[2] + total_of[3];
    const float log_total = p.log != 0 ? logf(total) : 0.0F;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        v[i] = (p.log != 0 ? v[i] - log_total : v[i] / total) / p.y_scale;
    store8(p.y, p.y_type, at, v);
}

} // namespace

bool layer_norm_takes(const LayerNormParams& p) {
    return p.columns % 8 == 0 && p.columns <= 8192 && p.columns > 0 && p.rows > 0 && p.rows < 0x7fffffff;
}

cudaError_t launch_layer_norm(const LayerNormParams& p, cudaStream_t stream, bool programmatic) {
    const auto warp = [&](auto kernel) {
        return launch_kernel(kernel, blocks_for(p.rows, block_warps), block_warps * 32, 0, stream, programmatic, 1, p);
    };
    const auto block = [&](auto kernel, int warps) {
        return launch_kernel(kernel, blocks_for(p.rows, 1), static_cast<unsigned>(warps * 32), 0, stream, programmatic,
                             1, p);
    };
    if (!layer_norm_takes(p)) return cudaErrorInvalidValue;
    const bool halves = p.x_type == type_f16 && p.y_type == type_f16 && p.x_scale == 1 && p.y_scale == 1 &&
                        (p.residual == nullptr || (p.residual_type == type_f16 && p.residual_scale == 1)) &&
                        (p.sum == nullptr || (p.sum_type == type_f16 && p.sum_scale == 1));
    if (halves && p.columns <= 1024) {
        const auto rows = [&](auto kernel) {
            constexpr std::int64_t most = 132 * 4; // blocks: rows of a warp share its factors
            const float steps = p.quantized != nullptr ? 1 / p.quantized_scale : 0.0F;
            return launch_kernel(kernel,
                                 static_cast<unsigned>(std::min<std::int64_t>(blocks_for(p.rows, block_warps), most)),
                                 block_warps * 32, 0, stream, programmatic, 1, p, steps);
        };
        if (p.columns <= 256) return rows(layer_norm_halves<1>);
        if (p.columns <= 512) return rows(layer_norm_halves<2>);
        if (p.columns <= 768) return rows(layer_norm_halves<3>);
        return rows(layer_norm_halves<4>);
    }
    if (p.columns <= 256) return warp(layer_norm<1, 1>);
    if (p.columns <= 512) return warp(layer_norm<1, 2>);
    if (p.columns <= 768) return warp(layer_norm<1, 3>);
    if (p.columns <= 1024) return warp(layer_norm<1, 4>);
    if (p.columns <= 2048) return block(layer_norm<4, 2>, 4);
    if (p.columns <= 4096) return block(layer_norm<8, 2>, 8);
    return block(layer_norm<8, 4>, 8);
}

bool softmax_takes(const SoftmaxParams& p) { return p.columns <= 1024 && p.columns > 0 && p.rows > 0; }

cudaError_t launch_softmax(const SoftmaxParams& p, cudaStream_t stream, bool programmatic) {
    const auto warp = [&](auto kernel) {
        return launch_kernel(kernel, blocks_for(p.rows, block_warps), block_warps * 32, 0, stream, programmatic, 1, p);
    };
    if (p.columns <= 128) return warp(softmax<4>);
    if (p.columns <= 384) return warp(softmax<12>);
    if (p.columns <= 1024 && p.columns % 8 == 0 && p.rows < 0x7fffffff)
        return launch_kernel(softmax_long, blocks_for(p.rows, 1), 128, 0, stream, programmatic, 1, p);
    if (p.columns <= 1024) return warp(softmax<32>);
    return cudaErrorInvalidValue;
}

} // namespace lathe::cuda::kernels
