// Attention over at most 512 keys on Hopper. K and V of a head whole in shared memory, brought by TMA in blocks of 64
// keys; a warpgroup multiplies its 64 rows of Q with a block by wgmma, the softmax (online, f32, base 2) stays in its
// registers, and the weights go into the second product from there. Several warpgroups a multiprocessor lie beside each
// other, so that one's exponentials fill the other's products.

#include "backends/cuda/kernels/sm90/attention_wgmma.hpp"

#include <algorithm>
#include <cstring>

#include <cuda.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/tensor_maps.hpp"
#include "backends/cuda/kernels/sm90/wgmma.cuh"
#include "backends/cuda/kernels/sm90/wgmma_more.cuh"

namespace lathe::cuda::kernels {
namespace sm90 {

constexpr int keys_a_block = 64;
constexpr int most_blocks = 8;
constexpr float log2_of_e = 1.4426950408889634F;

struct AttentionProblem {
    void* output;
    const void* mask;       ///< of keys: f16 or f32, the same for all rows; or null
    const __half* row_mask; ///< of rows and keys, an even number of them; or null
    const __half* second;   ///< another such; or null
    std::int64_t mask_batches, mask_batch, mask_head, mask_row, o_batch, o_row, o_head;
    std::int64_t second_batches, second_batch, second_head, second_row;
    std::int32_t mask_is_f32, empty_is_zero, causal, q_len, kv_len, blocks;
    std::int32_t heads_a_key; ///< that read the same keys and values
    float scale, output_factor;
};

__device__ inline void load_head(std::uint32_t to, const CUtensorMap* map, int row, int head, int batch,
                                 std::uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
                 "%4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(barrier)
                 : "memory");
}
/// Blocks of keys that the first `rows` rows read.
__device__ __forceinline__ int blocks_read(const AttentionProblem& problem, int rows) {
    if (problem.causal == 0) return problem.blocks;
    const int last = rows - 1 + problem.kv_len - problem.q_len;
    return min(problem.blocks, last / keys_a_block + 1);
}
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/// Two bytes, to the nearest even, -128..127.
__device__ __forceinline__ std::uint16_t pack_bytes(float a, float b) {
    std::uint32_t packed;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(packed) : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)));
    return static_cast<std::uint16_t>(packed);
}
__device__ __forceinline__ std::uint32_t pack_halves(float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Floats of a row of a warpgroup's sums, where warpgroups join theirs: rows on other banks.
constexpr int joined_pitch(int depth) { return depth + 8; }
/// Bytes of the sums, maxima and totals that `groups` warpgroups join.
constexpr int joined_bytes(int depth, int groups) { return groups * 64 * (joined_pitch(depth) + 2) * 4; }

/// `Split`: the warpgroups share 64 rows, each with every `Groups`th block of keys; else each has its own.
template <int Depth, class Out, int Groups, bool Split>
__global__ void __launch_bounds__(Groups * 128, Groups == 3 ? 1 : 4 / Groups)
    attention_wgmma(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                    const __grid_constant__ CUtensorMap map_v, const __grid_constant__ AttentionProblem problem) {
    constexpr int row_bytes = Depth * 2, tile_bytes = 64 * row_bytes;
    constexpr int query_tiles = Split ? 1 : Groups, rows = query_tiles * 64, step = Split ? Groups : 1;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t begin = (shared_address(shared) + 1023) & ~1023U;
    const int blocks = problem.blocks;
    const std::uint32_t queries = begin, keys = begin + query_tiles * tile_bytes, values = keys + blocks * tile_bytes;
    const std::uint32_t barriers = values + blocks * tile_bytes; // q, k of each block, v of each block
    const std::uint32_t mask = barriers + (1 + 2 * most_blocks) * 8;
    const int thread = static_cast<int>(threadIdx.x);
    const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z);
    const int row0 = static_cast<int>(blockIdx.x) * rows;
    const int key_head = head / problem.heads_a_key;
    const int read = blocks_read(problem, row0 + rows);

    if (thread == 0) {
        prefetch_map(&map_q);
        prefetch_map(&map_k);
        prefetch_map(&map_v);
        for (int i = 0; i < 1 + 2 * most_blocks; ++i)
            barrier_init(barriers + i * 8, 1);
        fence_barrier_init();
        allow_dependents();
        wait_for_predecessors();
        barrier_expect(barriers, query_tiles * tile_bytes);
        for (int g = 0; g < query_tiles; ++g)
            load_head(queries + g * tile_bytes, &map_q, row0 + g * 64, head, batch, barriers);
        for (int j = 0; j < read; ++j) {
            const std::uint32_t key_barrier = barriers + (1 + j) * 8, value_barrier = key_barrier + most_blocks * 8;
            barrier_expect(key_barrier, tile_bytes);
            load_head(keys + j * tile_bytes, &map_k, j * keys_a_block, key_head, batch, key_barrier);
            barrier_expect(value_barrier, tile_bytes);
            load_head(values + j * tile_bytes, &map_v, j * keys_a_block, key_head, batch, value_barrier);
        }
    }
    wait_for_predecessors();
    const std::int64_t mask_at = batch % problem.mask_batches * problem.mask_batch + head * problem.mask_head;
    for (int i = thread; i < read * keys_a_block; i += Groups * 128) {
        __half m = __float2half_rn(i < problem.kv_len ? 0.0F : -INFINITY);
        if (i < problem.kv_len && problem.mask != nullptr) {
            const std::int64_t at = mask_at + i;
            m = problem.mask_is_f32 != 0 ? __float2half_rn(static_cast<const float*>(problem.mask)[at])
                                         : static_cast<const __half*>(problem.mask)[at];
        }
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(mask + i * 2), "h"(__half_as_ushort(m)) : "memory");
    }
    __syncthreads();

    const int group = __shfl_sync(0xFFFFFFFF, thread / 128, 0), warp = thread / 32 % 4, lane = thread % 32;
    const int g = lane / 4, t = lane % 4;
    constexpr std::uint64_t descriptor = operand_descriptor(row_bytes);
    const int own_rows = Split ? 0 : group * 64; ///< of the block's, the first
    const std::uint32_t own_queries = queries + own_rows * row_bytes;
    float scores[32], out[Depth / 2], largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < Depth / 2; ++i)
        out[i] = 0;
    const int first_row = row0 + own_rows + warp * 16 + g;
    // Of a thread's two rows; rows behind the last read the last one's.
    const __half* row_masks[2] = {};
    if (problem.row_mask != nullptr) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            row_masks[h] = problem.row_mask + mask_at + min(first_row + 8 * h, problem.q_len - 1) * problem.mask_row;
    }
    const auto multiply_keys = [&](int j) {
        barrier_wait(barriers + (1 + j) * 8, 0);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < Depth / 16; ++k) {
            const std::uint64_t a = descriptor | ((own_queries + k * 32) >> 4);
            const std::uint64_t b = descriptor | ((keys + j * tile_bytes + k * 32) >> 4);
            if (k == 0)
                wgmma_scores_first(scores, a, b);
            else
                wgmma_scores_next(scores, a, b);
        }
        wgmma_commit();
    };
    // Scores to weights; what the values have given so far shrinks to the new maximum.
    const auto weigh = [&](int j, std::uint32_t(&weights)[4][4]) {
        float highest[2] = {largest[0], largest[1]};
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            std::uint32_t bits;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(mask + (j * keys_a_block + n * 8 + t * 2) * 2));
            const float2 m = __half22float2(*reinterpret_cast<const __half2*>(&bits));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                scores[4 * n + i] = fmaf(scores[4 * n + i], problem.scale, i % 2 == 0 ? m.x : m.y);
        }
        if (problem.row_mask != nullptr) {
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                const int key = j * keys_a_block + n * 8 + t * 2;
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    if (key >= problem.kv_len) continue;
                    const float2 m = __half22float2(*reinterpret_cast<const __half2*>(row_masks[h] + key));
                    scores[4 * n + 2 * h] += m.x;
                    scores[4 * n + 2 * h + 1] += m.y;
                }
            }
        }
        if (problem.second != nullptr) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const __half* from = problem.second + batch % problem.second_batches * problem.second_batch +
                                     head * problem.second_head +
                                     min(first_row + 8 * h, problem.q_len - 1) * problem.second_row;
#pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const int key = j * keys_a_block + n * 8 + t * 2;
                    if (key >= problem.kv_len) continue;
                    const float2 m = __half22float2(*reinterpret_cast<const __half2*>(from + key));
                    scores[4 * n + 2 * h] += m.x;
                    scores[4 * n + 2 * h + 1] += m.y;
                }
            }
        }
        if (problem.causal != 0) {
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                const int key = j * keys_a_block + i / 4 * 8 + t * 2 + i % 2;
                const int row = first_row + i % 4 / 2 * 8;
                if (key > row + problem.kv_len - problem.q_len) scores[i] = -INFINITY;
            }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i)
            highest[i % 4 / 2] = fmaxf(highest[i % 4 / 2], scores[i]);
        float origin[2], shrink[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFF, highest[h], 1));
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFF, highest[h], 2));
            origin[h] = highest[h] == -INFINITY ? 0.0F : highest[h] * log2_of_e; // all masked so far
            shrink[h] = power_of_two(fmaf(largest[h], log2_of_e, -origin[h]));
            largest[h] = highest[h];
            total[h] *= shrink[h];
        }
#pragma unroll
        for (int i = 0; i < Depth / 2; ++i)
            out[i] *= shrink[i / 2 % 2];
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int i = 0; i < 4; ++i) { // columns 16 s + 8 (i / 2) on, row h
                const int at = 8 * s + 2 * i, h = i % 2;
                const float a = power_of_two(fmaf(scores[at], log2_of_e, -origin[h]));
                const float b = power_of_two(fmaf(scores[at + 1], log2_of_e, -origin[h]));
                total[h] += a + b;
                weights[s][i] = pack_halves(a, b);
            }
    };
    const auto multiply_values = [&](int j, const std::uint32_t(&weights)[4][4]) {
        barrier_wait(barriers + (1 + most_blocks + j) * 8, 0);
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < 4; ++s)
            WgmmaValues<Depth>::run(out, weights[s],
                                    descriptor | ((values + j * tile_bytes + s * 16 * row_bytes) >> 4));
        wgmma_commit();
    };
    // All sums of one round are waited for in the round that started them: else the compiler waits after each product.
    const auto settle = [&] {
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 32; ++i)
            pin(scores[i]);
#pragma unroll
        for (int i = 0; i < Depth / 2; ++i)
            pin(out[i]);
    };
    barrier_wait(barriers, 0);
    // The last warpgroup waits for all that is on its way; one that shares rows may have no keys.
    const int own_blocks = blocks_read(problem, row0 + own_rows + 64);
    int j = Split ? group : 0;
    if (!Split || j < own_blocks) {
        multiply_keys(j);
        settle();
        std::uint32_t weights[4][4];
        for (; j + step < own_blocks; j += step) {
            weigh(j, weights);
            multiply_values(j, weights);
            multiply_keys(j + step);
            settle();
        }
        weigh(j, weights);
        multiply_values(j, weights);
        settle();
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(0xFFFFFFFF, total[h], 1);
        total[h] += __shfl_xor_sync(0xFFFFFFFF, total[h], 2);
    }
    auto* output = static_cast<Out*>(problem.output) + batch * problem.o_batch + head * problem.o_head;
    if constexpr (Split) {
        __syncthreads(); // queries, keys and values have been read
        constexpr int pitch = joined_pitch(Depth);
        float* sums = reinterpret_cast<float*>(shared + (begin - shared_address(shared))); // [group][64][pitch]
        float *highest = sums + Groups * 64 * pitch, *totals = highest + Groups * 64;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int at = group * 64 + warp * 16 + g + 8 * h;
            if (t == 0) highest[at] = largest[h], totals[at] = total[h];
#pragma unroll
            for (int n = 0; n < Depth / 8; ++n)
                *reinterpret_cast<float2*>(sums + at * pitch + n * 8 + t * 2) =
                    make_float2(out[4 * n + 2 * h], out[4 * n + 2 * h + 1]);
        }
        __syncthreads();
        constexpr int threads_a_row = Groups * 2;
        const int mine = thread / threads_a_row;
        if (row0 + mine >= problem.q_len) return;
        float most = -INFINITY, all = 0, parts[Groups];
#pragma unroll
        for (int w = 0; w < Groups; ++w)
            most = fmaxf(most, highest[w * 64 + mine]);
        const float origin = most == -INFINITY ? 0.0F : most * log2_of_e;
#pragma unroll
        for (int w = 0; w < Groups; ++w) {
            parts[w] = power_of_two(fmaf(highest[w * 64 + mine], log2_of_e, -origin));
            all = fmaf(totals[w * 64 + mine], parts[w], all);
        }
        const float factor = all == 0 && problem.empty_is_zero != 0 ? 0.0F : problem.output_factor / all;
        Out* to = output + (row0 + mine) * problem.o_row;
#pragma unroll
        for (int d = thread % threads_a_row * 2; d < Depth; d += threads_a_row * 2) {
            float a = 0, b = 0;
#pragma unroll
            for (int w = 0; w < Groups; ++w) {
                const float2 part = *reinterpret_cast<const float2*>(sums + (w * 64 + mine) * pitch + d);
                a = fmaf(part.x, parts[w], a);
                b = fmaf(part.y, parts[w], b);
            }
            if constexpr (sizeof(Out) == 2)
                *reinterpret_cast<std::uint32_t*>(to + d) = pack_halves(a * factor, b * factor);
            else
                *reinterpret_cast<std::uint16_t*>(to + d) = pack_bytes(a * factor, b * factor);
        }
        return;
    }

    // Through shared memory (where the queries were), so that whole rows are written.
    named_barrier(1 + group, 128);
    constexpr int size = static_cast<int>(sizeof(Out)), out_bytes = Depth * size, units = out_bytes / 16;
    const std::uint32_t own = own_queries + warp * 16 * out_bytes;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        // Of a row without scores: 0 times infinity, NaN, where it is not to be 0.
        const float factor = total[h] == 0 && problem.empty_is_zero != 0 ? 0.0F : problem.output_factor / total[h];
        const int row = g + 8 * h;
#pragma unroll
        for (int n = 0; n < Depth / 8; ++n) {
            const float a = out[4 * n + 2 * h] * factor, b = out[4 * n + 2 * h + 1] * factor;
            const int byte = (n * 8 + t * 2) * size;
            const std::uint32_t to = own + row * out_bytes + ((byte / 16) ^ (row & (units - 1))) * 16 + byte % 16;
            if constexpr (size == 2) {
                asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(pack_halves(a, b)) : "memory");
            } else {
                asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(pack_bytes(a, b)) : "memory");
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * units; i += 32) {
        const int row = i / units, unit = i % units;
        const int at = row0 + group * 64 + warp * 16 + row;
        const uint4 piece = load_shared(own + row * out_bytes + (unit ^ (row & (units - 1))) * 16);
        if (at < problem.q_len) *reinterpret_cast<uint4*>(output + at * problem.o_row + unit * (16 / size)) = piece;
    }
}

} // namespace sm90

namespace {

int blocks_of(const AttentionParams& p) {
    return static_cast<int>((p.kv_len + sm90::keys_a_block - 1) / sm90::keys_a_block);
}
int shared_bytes(const AttentionParams& p, AttentionWgmmaTile form) {
    const int tile = 64 * static_cast<int>(p.depth) * 2, blocks = blocks_of(p);
    const int joined = form.split ? sm90::joined_bytes(static_cast<int>(p.depth), form.groups) : 0;
    const int after = (1 + 2 * sm90::most_blocks) * 8 + blocks * sm90::keys_a_block * 2;
    // Shared memory begins at a multiple of 1024 as it is; where it does not, what is behind the mask makes up for it.
    const int all = ((form.split ? 1 : form.groups) + 2 * blocks) * tile + (after + 1023) / 1024 * 1024;
    return std::max(all, joined + 1024);
}

template <int Depth, class Out>
const void* kernel_of(AttentionWgmmaTile tile) {
    if (tile.split)
        return tile.groups == 2 ? reinterpret_cast<const void*>(sm90::attention_wgmma<Depth, Out, 2, true>)
                                : reinterpret_cast<const void*>(sm90::attention_wgmma<Depth, Out, 4, true>);
    if (tile.groups == 1) return reinterpret_cast<const void*>(sm90::attention_wgmma<Depth, Out, 1, false>);
    if (tile.groups == 2) return reinterpret_cast<const void*>(sm90::attention_wgmma<Depth, Out, 2, false>);
    return reinterpret_cast<const void*>(sm90::attention_wgmma<Depth, Out, 3, false>);
}
const void* kernel_of(const AttentionParams& p, AttentionWgmmaTile tile) {
    const bool s8 = p.output_type == type_s8;
    if (p.depth == 32) return s8 ? kernel_of<32, std::int8_t>(tile) : kernel_of<32, __half>(tile);
    return s8 ? kernel_of<64, std::int8_t>(tile) : kernel_of<64, __half>(tile);
}

cudaError_t encode_heads(CUtensorMap& map, const AttentionParams& p, const void* data, const std::int64_t* strides,
                         std::int64_t length, std::int64_t heads) {
    const auto wide = [](std::int64_t x) { return static_cast<cuuint64_t>(x); };
    // A stride over one element alone may be anything but 0.
    const auto bytes = [&](std::int64_t stride) { return wide(std::max<std::int64_t>(stride * 2, 16)); };
    const cuuint64_t dims[4] = {wide(p.depth), wide(length), wide(heads), wide(p.batch)};
    const cuuint64_t steps[3] = {bytes(strides[1]), bytes(strides[2]), bytes(strides[0])};
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(p.depth), 64, 1, 1};
    return sm90::encode_tiled(map, {type_f16, static_cast<int>(p.depth)}, data, 4, dims, steps, box);
}

/// Masks that differ between rows are read two keys at a time; if there are two masks, both are.
bool mask_fits(const AttentionParams& p) {
    const auto is_of_pairs = [&](const AttentionMask& mask) {
        const bool even = (p.kv_len | mask.row_stride | mask.head_stride | mask.batch_stride) % 2 == 0;
        return mask.type == type_f16 && even;
    };
    if (p.masks == 0) return true;
    if (p.masks == 2) return is_of_pairs(p.mask) && is_of_pairs(p.second_mask) && p.mask.row_stride > 0;
    if (p.mask.row_stride == 0) return p.mask.type == type_f16 || p.mask.type == type_f32;
    return is_of_pairs(p.mask);
}

} // namespace

bool attention_wgmma_takes(const AttentionParams& p, AttentionWgmmaTile tile) {
    const bool known = tile.split ? tile.groups == 2 || tile.groups == 4 : tile.groups >= 1 && tile.groups <= 3;
    if (!known || (tile.split && blocks_of(p) < tile.groups)) return false;
    if (!tile.split && tile.groups > 1 && p.q_len <= (tile.groups - 1) * 64) return false;
    const bool types = p.type == type_f16 && (p.output_type == type_f16 || p.output_type == type_s8);
    const auto lies_apart = [&](const std::int64_t* strides, std::int64_t heads) {
        return (p.batch == 1 || strides[0] > 0) && strides[1] > 0 && (heads == 1 || strides[2] > 0);
    };
    return types && attention_is_aligned(p) && mask_fits(p) && (p.depth == 32 || p.depth == 64) &&
           p.value_depth == p.depth && p.kv_len >= 1 && p.kv_len <= sm90::keys_a_block * sm90::most_blocks &&
           p.q_len >= 1 && p.heads < 65536 && p.batch < 65536 && (p.causal == 0 || p.kv_len >= p.q_len) &&
           lies_apart(p.q_strides, p.heads) && lies_apart(p.k_strides, p.kv_heads) &&
           lies_apart(p.v_strides, p.kv_heads) &&
           (p.o_strides[0] | p.o_strides[1] | p.o_strides[2] | p.o_offset) % 16 == 0 && shared_bytes(p, tile) <= 232448;
}

cudaError_t encode_maps_attention(const AttentionParams& p, AttentionWgmmaTile tile, void* maps) {
    if (!attention_wgmma_takes(p, tile)) return cudaErrorInvalidValue;
    CUtensorMap made[attention_wgmma_maps];
    cudaError_t error = encode_heads(made[0], p, p.q, p.q_strides, p.q_len, p.heads);
    if (error == cudaSuccess) error = encode_heads(made[1], p, p.k, p.k_strides, p.kv_len, p.kv_heads);
    if (error == cudaSuccess) error = encode_heads(made[2], p, p.v, p.v_strides, p.kv_len, p.kv_heads);
    if (error != cudaSuccess) return error;
    std::memcpy(maps, made, sizeof(made));
    return cudaFuncSetAttribute(kernel_of(p, tile), cudaFuncAttributeMaxDynamicSharedMemorySize, 232448);
}

// Started early, attention costs the network between BERT's products 0.6 to 4 % at up to 8 x 128 tokens and in int8 at
// 32 x 128, and gains nothing elsewhere (H200): so it never is.
cudaError_t launch_attention_wgmma(const AttentionParams& p, AttentionWgmmaTile tile, const void* maps,
                                   cudaStream_t stream) {
    if (!attention_wgmma_takes(p, tile)) return cudaErrorInvalidValue;
    sm90::AttentionProblem problem{};
    problem.output = p.output;
    if (p.masks > 0 && p.mask.row_stride > 0)
        problem.row_mask = static_cast<const __half*>(p.mask.data);
    else
        problem.mask = p.mask.data;
    problem.mask_batches = p.masks > 0 ? p.mask.batches : 1;
    problem.mask_batch = p.mask.batch_stride;
    problem.mask_head = p.mask.head_stride;
    problem.mask_row = p.mask.row_stride;
    problem.second_batches = 1;
    if (p.masks > 1) {
        problem.second = static_cast<const __half*>(p.second_mask.data);
        problem.second_batches = p.second_mask.batches;
        problem.second_batch = p.second_mask.batch_stride;
        problem.second_head = p.second_mask.head_stride;
        problem.second_row = p.second_mask.row_stride;
    }
    problem.empty_is_zero = p.empty_is_zero;
    problem.mask_is_f32 = p.mask.type == type_f32 ? 1 : 0;
    problem.o_batch = p.o_strides[0];
    problem.o_row = p.o_strides[1];
    problem.o_head = p.o_strides[2];
    problem.causal = p.causal;
    problem.heads_a_key = static_cast<std::int32_t>(p.heads / p.kv_heads);
    problem.q_len = static_cast<std::int32_t>(p.q_len);
    problem.kv_len = static_cast<std::int32_t>(p.kv_len);
    problem.blocks = blocks_of(p);
    problem.scale = p.scale;
    problem.output_factor = p.output_type == type_s8 ? 1 / p.output_scale : 1.0F;
    alignas(64) CUtensorMap made[attention_wgmma_maps];
    std::memcpy(made, maps, sizeof(made));
    void* arguments[] = {&made[0], &made[1], &made[2], &problem};
    const std::int64_t rows = tile.rows();
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>((p.q_len + rows - 1) / rows), static_cast<unsigned>(p.heads),
                          static_cast<unsigned>(p.batch));
    config.blockDim = dim3(static_cast<unsigned>(tile.groups * 128));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes(p, tile));
    config.stream = stream;
    return cudaLaunchKernelExC(&config, kernel_of(p, tile), arguments);
}

} // namespace lathe::cuda::kernels
