// Attention in f32 on FMAs: a block walks over tiles of keys with 16, 32 or 64 rows of Q, softmax online in f32. Scores
// stay in registers and shared memory, so that neither they nor turned copies of q, k and v go through memory.

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/mma_ptx.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int block_threads = 128;
constexpr int keys_a_tile = 64;
constexpr int columns_of_threads = 16;                         ///< half a warp shares rows
constexpr int row_groups = block_threads / columns_of_threads; ///< of threads
constexpr int keys_a_thread = keys_a_tile / columns_of_threads;
constexpr int score_pitch = keys_a_tile + 16; ///< floats: neighbouring rows on other banks
constexpr float log2_e = 1.4426950408889634F;

template <int Depth>
constexpr int operand_pitch = Depth + 4; ///< floats of a row of Q or K: rows on other banks

/// Floats of shared memory: Q, K, V and the scores of a tile.
template <int Depth>
constexpr int shared_floats(int rows) {
    return (rows + keys_a_tile) * operand_pitch<Depth> + keys_a_tile * Depth + rows * score_pitch;
}

template <int Depth, int Rows>
__global__ void __launch_bounds__(block_threads, Rows == 64 ? 3 : 4)
    attention_fma(const __grid_constant__ AttentionParams p) {
    constexpr int pitch = operand_pitch<Depth>, chunks = Depth / 4;
    constexpr int rows_a_thread = Rows / row_groups;         ///< row group, row group + 8, ...
    constexpr int out_a_thread = Depth / columns_of_threads; ///< neighbouring columns of the output
    extern __shared__ __align__(128) float shared[];
    float* queries = shared;
    float* keys = queries + Rows * pitch;
    float* values = keys + keys_a_tile * pitch;
    float* scores = values + keys_a_tile * Depth;
    const int thread = static_cast<int>(threadIdx.x);
    const int group = thread / columns_of_threads, column = thread % columns_of_threads;
    const int row0 = static_cast<int>(blockIdx.x) * Rows;
    const std::int64_t head = blockIdx.y, batch = blockIdx.z;
    const int q_len = static_cast<int>(p.q_len), kv_len = static_cast<int>(p.kv_len);
    pdl_wait();
    pdl_trigger();

    const auto fetch = [&](const void* from, const std::int64_t* strides, float* to, int to_pitch, int first, int count,
                           int limit) {
        const float* base = static_cast<const float*>(from) + batch * strides[0] + head * strides[2];
        for (int i = thread; i < count * chunks; i += block_threads) {
            const int row = i / chunks, chunk = i % chunks, from_row = first + row < limit ? first + row : 0;
            mma::copy_async(mma::shared_address(to + row * to_pitch + chunk * 4),
                            base + from_row * strides[1] + chunk * 4, first + row < limit);
        }
        mma::copy_commit();
    };
    fetch(p.q, p.q_strides, queries, pitch, row0, Rows, q_len);
    fetch(p.k, p.k_strides, keys, pitch, 0, keys_a_tile, kv_len);

    float largest[rows_a_thread], total[rows_a_thread], out[rows_a_thread][out_a_thread];
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
        largest[i] = -INFINITY;
        total[i] = 0;
#pragma unroll
        for (int d = 0; d < out_a_thread; ++d)
            out[i][d] = 0;
    }
    const std::int64_t mask_at = batch * p.mask.batch_stride;
    for (int key0 = 0; key0 < kv_len; key0 += keys_a_tile) {
        fetch(p.v, p.v_strides, values, Depth, key0, keys_a_tile, kv_len);
        mma::copy_wait<1>(); // all but the values
        __syncthreads();

        float score[rows_a_thread][keys_a_thread] = {}; // of keys column, column + 16, ...
#pragma unroll 4
        for (int d = 0; d < Depth; d += 4) {
            float4 k[keys_a_thread];
#pragma unroll
            for (int j = 0; j < keys_a_thread; ++j)
                k[j] = *reinterpret_cast<const float4*>(keys + (column + j * columns_of_threads) * pitch + d);
#pragma unroll
            for (int i = 0; i < rows_a_thread; ++i) {
                const float4 q = *reinterpret_cast<const float4*>(queries + (group + i * row_groups) * pitch + d);
#pragma unroll
                for (int j = 0; j < keys_a_thread; ++j) {
                    score[i][j] = fmaf(q.x, k[j].x, score[i][j]);
                    score[i][j] = fmaf(q.y, k[j].y, score[i][j]);
                    score[i][j] = fmaf(q.z, k[j].z, score[i][j]);
                    score[i][j] = fmaf(q.w, k[j].w, score[i][j]);
                }
            }
        }
        float masks[keys_a_thread] = {}; // where one row of the mask is for all
        if (p.mask.data != nullptr && p.mask.row_stride == 0) {
#pragma unroll
            for (int j = 0; j < keys_a_thread; ++j) {
                const int key = key0 + column + j * columns_of_threads;
                if (key < kv_len) masks[j] = load_any(p.mask.data, p.mask.type, mask_at + key);
            }
        }
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
            const int row = row0 + group + i * row_groups;
            float highest = largest[i];
#pragma unroll
            for (int j = 0; j < keys_a_thread; ++j) {
                const int key = key0 + column + j * columns_of_threads;
                float mask = masks[j];
                if (p.mask.data != nullptr && p.mask.row_stride != 0 && key < kv_len && row < q_len)
                    mask = load_any(p.mask.data, p.mask.type, mask_at + row * p.mask.row_stride + key);
                score[i][j] = key < kv_len ? fmaf(score[i][j], p.scale, mask) : -INFINITY;
                highest = fmaxf(highest, score[i][j]);
            }
#pragma unroll
            for (int offset = columns_of_threads / 2; offset > 0; offset >>= 1)
                highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, offset));
            // Differences before the factor: masks may be the type's lowest number. Of none but -inf nothing is left.
            const float from = highest == -INFINITY ? 0.0F : highest;
            const float shrink = exp2f((largest[i] - from) * log2_e);
            largest[i] = highest;
            total[i] *= shrink;
#pragma unroll
            for (int d = 0; d < out_a_thread; ++d)
                out[i][d] *= shrink;
#pragma unroll
            for (int j = 0; j < keys_a_thread; ++j) {
                const float weight = exp2f((score[i][j] - from) * log2_e);
                total[i] += weight;
                scores[(group + i * row_groups) * score_pitch + column + j * columns_of_threads] = weight;
            }
        }
        mma::copy_wait<0>();
        __syncthreads(); // values and scores are there, keys are read
        if (key0 + keys_a_tile < kv_len) fetch(p.k, p.k_strides, keys, pitch, key0 + keys_a_tile, keys_a_tile, kv_len);

#pragma unroll 4
        for (int key = 0; key < keys_a_tile; key += 4) {
            alignas(16) float v[4][out_a_thread];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float* from = values + (key + j) * Depth + column * out_a_thread;
                if constexpr (out_a_thread == 4)
                    *reinterpret_cast<float4*>(v[j]) = *reinterpret_cast<const float4*>(from);
                else
                    *reinterpret_cast<float2*>(v[j]) = *reinterpret_cast<const float2*>(from);
            }
#pragma unroll
            for (int i = 0; i < rows_a_thread; ++i) {
                const float4 weight =
                    *reinterpret_cast<const float4*>(scores + (group + i * row_groups) * score_pitch + key);
#pragma unroll
                for (int d = 0; d < out_a_thread; ++d) {
                    out[i][d] = fmaf(weight.x, v[0][d], out[i][d]);
                    out[i][d] = fmaf(weight.y, v[1][d], out[i][d]);
                    out[i][d] = fmaf(weight.z, v[2][d], out[i][d]);
                    out[i][d] = fmaf(weight.w, v[3][d], out[i][d]);
                }
            }
        }
        __syncthreads(); // before values and scores are replaced
    }
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
#pragma unroll
        for (int offset = columns_of_threads / 2; offset > 0; offset >>= 1)
            total[i] += __shfl_xor_sync(0xffffffffU, total[i], offset);
        const int row = row0 + group + i * row_groups;
        if (row >= q_len) continue;
        const std::int64_t to =
            batch * p.o_strides[0] + row * p.o_strides[1] + head * p.o_strides[2] + column * out_a_thread;
        alignas(16) float result[out_a_thread];
#pragma unroll
        for (int d = 0; d < out_a_thread; ++d)
            result[d] = out[i][d] / total[i];
        if (p.output_type == type_s8) {
#pragma unroll
            for (int d = 0; d < out_a_thread; ++d)
                static_cast<std::int8_t*>(p.output)[to + d] = saturate_s8(result[d] / p.output_scale);
        } else if constexpr (out_a_thread == 4) {
            *reinterpret_cast<float4*>(static_cast<float*>(p.output) + to) = *reinterpret_cast<const float4*>(result);
        } else {
            *reinterpret_cast<float2*>(static_cast<float*>(p.output) + to) = *reinterpret_cast<const float2*>(result);
        }
    }
}

template <int Depth, int Rows>
cudaError_t launch_rows(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    constexpr int bytes = shared_floats<Depth>(Rows) * static_cast<int>(sizeof(float));
    if (const cudaError_t code =
            cudaFuncSetAttribute(attention_fma<Depth, Rows>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        code != cudaSuccess)
        return code;
    const dim3 grid(blocks_for(p.q_len, Rows), static_cast<unsigned>(p.heads), static_cast<unsigned>(p.batch));
    return launch_kernel(attention_fma<Depth, Rows>, grid, block_threads, bytes, stream, programmatic, 1, p);
}
template <int Depth>
cudaError_t launch_depth(int rows, const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (rows == 64) return launch_rows<Depth, 64>(p, stream, programmatic);
    return rows == 32 ? launch_rows<Depth, 32>(p, stream, programmatic)
                      : launch_rows<Depth, 16>(p, stream, programmatic);
}

} // namespace

bool attention_fma_takes(const AttentionParams& p) {
    return is_plain_attention(p) && p.empty_is_zero == 0 && attention_is_aligned(p) && p.type == type_f32 &&
           (p.output_type == type_f32 || p.output_type == type_s8) && (p.depth == 32 || p.depth == 64) &&
           p.kv_len >= 1 && p.kv_len < (1 << 30) && p.q_len >= 1 && p.q_len < (1 << 30) && p.heads < 65536 &&
           p.batch < 65536;
}

std::size_t attention_fma_shared_bytes(std::int64_t depth, int rows) {
    return sizeof(float) * static_cast<std::size_t>(depth == 32 ? shared_floats<32>(rows) : shared_floats<64>(rows));
}

cudaError_t launch_attention_fma(int rows, const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (!attention_fma_takes(p) || (rows != 16 && rows != 32 && rows != 64)) return cudaErrorInvalidValue;
    return p.depth == 32 ? launch_depth<32>(rows, p, stream, programmatic)
                         : launch_depth<64>(rows, p, stream, programmatic);
}

} // namespace lathe::cuda::kernels
