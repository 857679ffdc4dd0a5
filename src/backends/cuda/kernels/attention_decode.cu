// Attention of a few rows over many keys (a decoder's step): keys are shared out over blocks, so that all
// multiprocessors read K and V, each number once for all rows and heads that read it. Phase one gives each part's
// maximum, sum and weighted values; phase two joins them. What memory allows bounds it, so products are FMAs in f32.
//
// Dao et al., Flash-Decoding for long-context inference (2023).

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr float log2_e = 1.4426950408889634F;
constexpr int warps = 4, keys_at_once = 4;

/// Numbers of one part and row in the workspace: maximum, sum, then the weighted values.
__host__ __device__ constexpr std::int64_t part_floats(std::int64_t depth) { return depth + 2; }

__device__ __forceinline__ void store_row(const AttentionParams& p, std::int64_t batch, std::int64_t head,
                                          std::int64_t row, int i, float sum, float total) {
    const float value = total == 0 && p.empty_is_zero != 0 ? 0.0F : sum / total;
    store_any(p.output, p.output_type, batch * p.o_strides[0] + row * p.o_strides[1] + head * p.o_strides[2] + i,
              value / p.output_scale);
}

/// Rows: of Q that read one head of keys, position and head of the group together. Lanes: as many side by side hold a
/// key, 8 numbers each.
template <class T, int Rows, int Lanes>
__global__ void __launch_bounds__(warps * 32)
    attention_decode(const __grid_constant__ AttentionParams p, float* parts, int keys_a_part) {
    constexpr int keys_a_warp = 32 / Lanes;
    __shared__ float shared[warps][Rows][2 + Lanes * 8];
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const int column = lane % Lanes * 8, own = lane / Lanes;
    const std::int64_t part = blockIdx.x, key_head = blockIdx.y, batch = blockIdx.z;
    const int group = static_cast<int>(p.heads / p.kv_heads), q_len = static_cast<int>(p.q_len);
    const int kv_len = static_cast<int>(p.kv_len), depth = static_cast<int>(p.depth), used = group * q_len;
    const int begin = static_cast<int>(part) * keys_a_part;
    const int end = begin + keys_a_part < kv_len ? begin + keys_a_part : kv_len;
    const bool inside = column < depth;
    const float scale = p.scale * log2_e;
    pdl_wait();
    pdl_trigger();

    float q[Rows][8] = {}, sums[Rows][8] = {}, largest[Rows], total[Rows] = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        largest[r] = -INFINITY;
        if (r < used && inside)
            unpack<T>(*reinterpret_cast<const uint4*>(static_cast<const T*>(p.q) + batch * p.q_strides[0] +
                                                      r % q_len * p.q_strides[1] +
                                                      (key_head * group + r / q_len) * p.q_strides[2] + column),
                      q[r]);
    }
    const T* keys = static_cast<const T*>(p.k) + batch * p.k_strides[0] + key_head * p.k_strides[2] + column;
    const T* values = static_cast<const T*>(p.v) + batch * p.v_strides[0] + key_head * p.v_strides[2] + column;
    constexpr int step = warps * keys_a_warp;
    for (int first = begin + warp * keys_a_warp + own; first - own < end; first += step * keys_at_once) {
        float scores[keys_at_once][Rows];
        // Keys and values are on their way at once: what follows waits for memory, not for arithmetic.
        uint4 stored[keys_at_once][2];
#pragma unroll
        for (int u = 0; u < keys_at_once; ++u) {
            const int key = first + u * step;
            stored[u][0] = stored[u][1] = make_uint4(0, 0, 0, 0);
            if (key >= end || !inside) continue;
            stored[u][0] = *reinterpret_cast<const uint4*>(keys + key * p.k_strides[1]);
            stored[u][1] = *reinterpret_cast<const uint4*>(values + key * p.v_strides[1]);
        }
#pragma unroll
        for (int u = 0; u < keys_at_once; ++u) {
            const int key = first + u * step;
            float k[8];
            unpack<T>(stored[u][0], k);
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
                float sum = 0;
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    sum = fmaf(q[r][i], k[i], sum);
#pragma unroll
                for (int offset = Lanes / 2; offset > 0; offset >>= 1)
                    sum += __shfl_xor_sync(0xffffffffU, sum, offset);
                const int row = r % q_len;
                const std::int64_t head = key_head * group + r / q_len;
                float v = sum * scale;
                const auto masked = [&](const AttentionMask& mask) {
                    return to_float(
                        static_cast<const T*>(mask.data)[batch % mask.batches * mask.batch_stride +
                                                         head * mask.head_stride + row * mask.row_stride + key]);
                };
                if (key < end && r < used) {
                    if (p.masks > 0) v = fmaf(masked(p.mask), log2_e, v);
                    if (p.masks > 1) v = fmaf(masked(p.second_mask), log2_e, v);
                }
                const bool read = key < end && (p.causal == 0 || key <= row + kv_len - q_len);
                scores[u][r] = read ? v : -INFINITY;
            }
        }
        float origin[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            float highest = largest[r];
#pragma unroll
            for (int u = 0; u < keys_at_once; ++u)
                highest = fmaxf(highest, scores[u][r]);
            origin[r] = highest == -INFINITY ? 0.0F : highest;
            const float shrink = exp2f(largest[r] - origin[r]);
            largest[r] = highest;
            total[r] *= shrink;
#pragma unroll
            for (int i = 0; i < 8; ++i)
                sums[r][i] *= shrink;
        }
#pragma unroll
        for (int u = 0; u < keys_at_once; ++u) {
            float v[8];
            unpack<T>(stored[u][1], v);
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
                const float weight = exp2f(scores[u][r] - origin[r]);
                total[r] += weight;
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    sums[r][i] = fmaf(weight, v[i], sums[r][i]);
            }
        }
    }
    // The keys of a warp, then of the block.
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
        for (int offset = Lanes; offset < 32; offset <<= 1) {
            const float other = __shfl_xor_sync(0xffffffffU, largest[r], offset);
            const float highest = fmaxf(largest[r], other), origin = highest == -INFINITY ? 0.0F : highest;
            const float mine = exp2f(largest[r] - origin), its = exp2f(other - origin);
            total[r] = total[r] * mine + __shfl_xor_sync(0xffffffffU, total[r], offset) * its;
#pragma unroll
            for (int i = 0; i < 8; ++i)
                sums[r][i] = sums[r][i] * mine + __shfl_xor_sync(0xffffffffU, sums[r][i], offset) * its;
            largest[r] = highest;
        }
        if (own == 0) {
            if (lane == 0) {
                shared[warp][r][0] = largest[r];
                shared[warp][r][1] = total[r];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
                shared[warp][r][2 + column + i] = sums[r][i];
        }
    }
    __syncthreads();
    for (int at = thread; at < used * depth; at += warps * 32) {
        const int r = at / depth, i = at % depth;
        float highest = -INFINITY;
        for (int w = 0; w < warps; ++w)
            highest = fmaxf(highest, shared[w][r][0]);
        const float origin = highest == -INFINITY ? 0.0F : highest;
        float sum = 0, all = 0;
        for (int w = 0; w < warps; ++w) {
            const float factor = exp2f(shared[w][r][0] - origin);
            sum += shared[w][r][2 + i] * factor;
            all += shared[w][r][1] * factor;
        }
        if (parts == nullptr) {
            store_row(p, batch, key_head * group + r / q_len, r % q_len, i, sum, all);
            continue;
        }
        float* to = parts + (((batch * p.kv_heads + key_head) * used + r) * gridDim.x + part) * part_floats(depth);
        if (i == 0) {
            to[0] = highest;
            to[1] = all;
        }
        to[2 + i] = sum;
    }
}

/// One block a row of Q joins its parts.
__global__ void attention_join(const __grid_constant__ AttentionParams p, const float* parts, int count) {
    const std::int64_t index = blockIdx.x;
    const std::int64_t group = p.heads / p.kv_heads, used = group * p.q_len;
    const std::int64_t r = index % used, key_head = index / used % p.kv_heads, batch = index / (used * p.kv_heads);
    const float* from = parts + index * count * part_floats(p.depth);
    pdl_wait();
    pdl_trigger();
    float highest = -INFINITY;
    for (int i = 0; i < count; ++i)
        highest = fmaxf(highest, from[i * part_floats(p.depth)]);
    const float origin = highest == -INFINITY ? 0.0F : highest;
    for (int d = static_cast<int>(threadIdx.x); d < p.depth; d += static_cast<int>(blockDim.x)) {
        float sum = 0, total = 0;
        for (int i = 0; i < count; ++i) {
            const float* part = from + i * part_floats(p.depth);
            const float factor = exp2f(part[0] - origin);
            total += part[1] * factor;
            sum += part[2 + d] * factor;
        }
        store_row(p, batch, key_head * group + r / p.q_len, r % p.q_len, d, sum, total);
    }
}

template <class T, int Rows, int Lanes>
cudaError_t launch_lanes(const AttentionParams& p, int split, float* parts, cudaStream_t stream, bool programmatic) {
    const int keys = static_cast<int>((p.kv_len + split - 1) / split);
    const int count = static_cast<int>((p.kv_len + keys - 1) / keys);
    float* const to = count > 1 ? parts : nullptr;
    const cudaError_t code = launch_kernel(
        attention_decode<T, Rows, Lanes>,
        dim3(static_cast<unsigned>(count), static_cast<unsigned>(p.kv_heads), static_cast<unsigned>(p.batch)),
        warps * 32, 0, stream, programmatic, 1, p, to, keys);
    if (code != cudaSuccess || count == 1) return code;
    return launch_kernel(attention_join, static_cast<unsigned>(p.batch * p.heads * p.q_len), 64, 0, stream,
                         programmatic, 1, p, static_cast<const float*>(parts), count);
}

template <class T, int Rows>
cudaError_t launch_rows(const AttentionParams& p, int split, float* parts, cudaStream_t stream, bool programmatic) {
    if (p.depth <= 32) return launch_lanes<T, Rows, 4>(p, split, parts, stream, programmatic);
    if (p.depth <= 64) return launch_lanes<T, Rows, 8>(p, split, parts, stream, programmatic);
    if (p.depth <= 128) return launch_lanes<T, Rows, 16>(p, split, parts, stream, programmatic);
    return launch_lanes<T, Rows, 32>(p, split, parts, stream, programmatic);
}

template <class T>
cudaError_t launch_type(const AttentionParams& p, int split, float* parts, cudaStream_t stream, bool programmatic) {
    const std::int64_t rows = p.heads / p.kv_heads * p.q_len;
    if (rows == 1) return launch_rows<T, 1>(p, split, parts, stream, programmatic);
    if (rows == 2) return launch_rows<T, 2>(p, split, parts, stream, programmatic);
    if (rows <= 4) return launch_rows<T, 4>(p, split, parts, stream, programmatic);
    return launch_rows<T, 8>(p, split, parts, stream, programmatic);
}

} // namespace

bool attention_decode_takes(const AttentionParams& p) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    const bool type = (p.type == type_f16 || p.type == type_bf16) && (p.masks < 1 || p.mask.type == p.type) &&
                      (p.masks < 2 || p.second_mask.type == p.type);
    return type && attention_is_aligned(p) && p.value_depth == p.depth && p.depth % 8 == 0 && p.depth >= 8 &&
           p.depth <= 256 && p.kv_len >= 1 && p.kv_len < most && p.q_len >= 1 && p.heads / p.kv_heads * p.q_len <= 8 &&
           p.kv_heads < 65536 && p.batch < 65536;
}

std::size_t attention_decode_workspace(const AttentionParams& p, int split) {
    if (split == 1) return 0;
    return static_cast<std::size_t>(p.batch * p.heads * p.q_len * split * part_floats(p.depth)) * sizeof(float);
}

cudaError_t launch_attention_decode(const AttentionParams& p, int split, void* workspace, cudaStream_t stream,
                                    bool programmatic) {
    if (!attention_decode_takes(p) || split < 1) return cudaErrorInvalidValue;
    auto* const parts = static_cast<float*>(workspace);
    return p.type == type_f16 ? launch_type<__half>(p, split, parts, stream, programmatic)
                              : launch_type<__nv_bfloat16>(p, split, parts, stream, programmatic);
}

} // namespace lathe::cuda::kernels
