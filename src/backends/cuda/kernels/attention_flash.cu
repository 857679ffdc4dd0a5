// Attention over any number of keys: tiles of K and V stream through shared memory two deep, 16 rows of Q a warp,
// products of f16 or bf16 on mma.sync, softmax online in f32 (base 2). Any head up to 256 wide, several heads of Q to
// one of K and V, two masks by sample, head and row, causal, rows without scores. Rows that do not begin at multiples
// of 16 bytes (heads 36 or 60 wide) are copied in pairs or one by one. Where rows and heads are few, the
// warps of a block share 16 rows and take turns at the keys (`Split`), and their parts are joined at the end.
//
// Dao, FlashAttention-2 (2023): the order of work and the online softmax.

#include <type_traits>

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/mma_ptx.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr float log2_e = 1.4426950408889634F;

__device__ __forceinline__ void load_transposed(std::uint32_t (&r)[4], std::uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}
template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
    if constexpr (std::is_same_v<T, __half>)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <class T>
__device__ __forceinline__ std::uint32_t pair(float a, float b) {
    const T two[2] = {from_float<T>(a), from_float<T>(b)};
    std::uint32_t bits;
    memcpy(&bits, two, 4);
    return bits;
}

/// Keys of a warp's tile: fewer for wide heads, whose sums fill the registers, and where each warp has tiles of its
/// own.
constexpr int keys_for(int depth, int split) { return depth <= 128 && split == 1 ? 64 : 32; }
/// Tiles in shared memory at once: one where two of all warps do not fit.
constexpr int stages_for(int depth, int split) { return depth <= 128 || split == 1 ? 2 : 1; }
/// Bytes of a row in shared memory: rows begin on other banks.
constexpr int pitch_for(int depth) { return depth * 2 + 16; }
constexpr int shared_for(int depth, int rows, int split) {
    return (rows + stages_for(depth, split) * 2 * split * keys_for(depth, split)) * pitch_for(depth);
}
/// Floats of a row of a warp's sums, where warps join theirs.
constexpr int joined_pitch(int depth) { return depth + 8; }

/// Eight elements of a row to shared memory, those at or behind `end` as zeros; `from` need not be aligned.
template <class T>
__device__ __forceinline__ void copy_loose(unsigned char* to, const T* from, int end) {
    std::uint32_t words[4] = {};
    if ((reinterpret_cast<std::uintptr_t>(from) & 3U) == 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (2 * i + 1 < end)
                words[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
            else if (2 * i < end)
                words[i] = reinterpret_cast<const std::uint16_t*>(from)[2 * i];
        }
    } else {
        const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (i < end) words[i / 2] |= static_cast<std::uint32_t>(halves[i]) << (i % 2 * 16);
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/// `Depth`: the wider of keys and values, rounded up to what there is a kernel for; what is beyond it is zero.
/// `Split`: warps that share the block's 16 rows, each with every `Split`th tile of keys; 1: each warp has its own
/// rows.
template <class T, int Depth, int Split>
__global__ void __launch_bounds__(128) attention_flash(const __grid_constant__ AttentionParams p) {
    constexpr int pitch = pitch_for(Depth), chunks = Depth / 8, steps = Depth / 16;
    constexpr int keys_a_tile = keys_for(Depth, Split), keys_a_round = Split * keys_a_tile;
    constexpr int stages = stages_for(Depth, Split);
    constexpr bool keeps_queries = Depth <= 128; // in registers
    extern __shared__ __align__(128) unsigned char shared[];
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32, lane = thread % 32, g = lane >> 2, t = lane & 3;
    const int rows = Split > 1 ? 16 : threads / 2; // 16 a warp
    const int warp_row = Split > 1 ? 0 : warp * 16, warp_key = Split > 1 ? warp * keys_a_tile : 0;
    unsigned char* queries = shared;
    unsigned char* tiles = shared + rows * pitch;
    const int row0 = static_cast<int>(blockIdx.x) * rows;
    const std::int64_t head = blockIdx.y, batch = blockIdx.z, key_head = head / (p.heads / p.kv_heads);
    const int q_len = static_cast<int>(p.q_len), kv_len = static_cast<int>(p.kv_len);
    const int values = static_cast<int>(p.value_depth), ahead = kv_len - q_len; // causal: row i, keys up to i + ahead
    int limit = kv_len;
    if (p.causal != 0) {
        const int last = row0 + rows + ahead;
        limit = last < 0 ? 0 : last < kv_len ? last : kv_len;
    }
    const int count = (limit + keys_a_round - 1) / keys_a_round;
    const auto address = [](const void* at) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at)); };
    std::int64_t elements = p.depth | p.value_depth,
                 bytes = address(p.q) | address(p.k) | address(p.v) | address(p.output);
    for (int i = 0; i < 3; ++i)
        elements |= p.q_strides[i] | p.k_strides[i] | p.v_strides[i] | p.o_strides[i];
    const bool aligned = ((elements * 2 | bytes) & 15) == 0;
    pdl_wait();
    pdl_trigger();

    const auto fetch = [&](const void* from, const std::int64_t* strides, std::int64_t which, std::int64_t wide,
                           unsigned char* to, int first, int number, int end) {
        const int depth = static_cast<int>(wide);
        const T* base = static_cast<const T*>(from) + batch * strides[0] + which * strides[2];
        if (!aligned) {
            for (int i = thread; i < number * chunks; i += threads) {
                const int row = i / chunks, chunk = i % chunks;
                copy_loose(to + row * pitch + chunk * 16, base + (first + row) * strides[1] + chunk * 8,
                           first + row < end ? depth - chunk * 8 : 0);
            }
            return;
        }
        for (int i = thread; i < number * chunks; i += threads) {
            const int row = i / chunks, chunk = i % chunks;
            const bool valid = first + row < end && chunk * 8 < depth;
            mma::copy_async(mma::shared_address(to + row * pitch + chunk * 16),
                            valid ? base + (first + row) * strides[1] + chunk * 8 : base, valid);
        }
    };
    const auto fetch_tiles = [&](int round) {
        unsigned char* to = tiles + round % stages * (2 * keys_a_round * pitch);
        fetch(p.k, p.k_strides, key_head, p.depth, to, round * keys_a_round, keys_a_round, kv_len);
        fetch(p.v, p.v_strides, key_head, p.value_depth, to + keys_a_round * pitch, round * keys_a_round, keys_a_round,
              kv_len);
    };
    fetch(p.q, p.q_strides, head, p.depth, queries, row0, rows, q_len);
    if (count > 0) fetch_tiles(0);
    mma::copy_commit();

    const std::uint32_t query_from =
        mma::shared_address(queries) + static_cast<std::uint32_t>((warp_row + (lane & 15)) * pitch + (lane >> 4) * 16);
    std::uint32_t q[keeps_queries ? steps : 1][4];
    // rows of this thread: row and row + 8
    const int row = row0 + warp_row + g;
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    float out[Depth / 8][4] = {};
    const float scale = p.scale * log2_e;
    const auto mask_row = [&](const AttentionMask& mask, int half) {
        const int r = row + half * 8 < q_len ? row + half * 8 : q_len - 1;
        return static_cast<const T*>(mask.data) + batch % mask.batches * mask.batch_stride + head * mask.head_stride +
               r * mask.row_stride;
    };
    const T* masks[2][2] = {};
    if (p.masks > 0) masks[0][0] = mask_row(p.mask, 0), masks[0][1] = mask_row(p.mask, 1);
    if (p.masks > 1) masks[1][0] = mask_row(p.second_mask, 0), masks[1][1] = mask_row(p.second_mask, 1);

    // The products and the softmax of one tile of this warp, whose keys begin at `key0`.
    const auto attend = [&](int key0, const unsigned char* round) {
        const std::uint32_t keys = mma::shared_address(round);
        const std::uint32_t key_from =
            keys +
            static_cast<std::uint32_t>((warp_key + (lane & 7) + ((lane >> 4) << 3)) * pitch + ((lane >> 3) & 1) * 16);
        const std::uint32_t value_from =
            keys + static_cast<std::uint32_t>((keys_a_round + warp_key + (lane & 15)) * pitch + (lane >> 4) * 16);
        float scores[keys_a_tile / 8][4] = {};
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            if constexpr (!keeps_queries) mma::load_matrices(q[0], query_from + static_cast<std::uint32_t>(s * 32));
#pragma unroll
            for (int j = 0; j < keys_a_tile / 16; ++j) {
                std::uint32_t b[4];
                mma::load_matrices(b, key_from + static_cast<std::uint32_t>(j * 16 * pitch + s * 32));
                multiply<T>(scores[2 * j], q[keeps_queries ? s : 0], b[0], b[1]);
                multiply<T>(scores[2 * j + 1], q[keeps_queries ? s : 0], b[2], b[3]);
            }
        }
        float highest[2] = {largest[0], largest[1]};
        // Only the last tiles have keys that are none, or that a row of this block may not read.
        const bool edge = key0 + keys_a_tile > kv_len || (p.causal != 0 && key0 + keys_a_tile > row0 + 1 + ahead);
#pragma unroll
        for (int j = 0; j < keys_a_tile / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = key0 + j * 8 + t * 2 + i % 2, half = i / 2;
                float v = scores[j][i] * scale;
                if (!edge || key < kv_len) {
                    if (p.masks > 0) v = fmaf(to_float(masks[0][half][key]), log2_e, v);
                    if (p.masks > 1) v = fmaf(to_float(masks[1][half][key]), log2_e, v);
                }
                if (edge && (key >= kv_len || (p.causal != 0 && key > row + half * 8 + ahead))) v = -INFINITY;
                scores[j][i] = v;
                highest[half] = fmaxf(highest[half], v);
            }
        float origin[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffffU, highest[h], 1));
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffffU, highest[h], 2));
            // Of none but -inf nothing is left so far, and no difference of infinities may be taken.
            origin[h] = highest[h] == -INFINITY ? 0.0F : highest[h];
            const float shrink = exp2f(largest[h] - origin[h]);
            largest[h] = highest[h];
            total[h] *= shrink;
#pragma unroll
            for (int d = 0; d < Depth / 8; ++d) {
                out[d][2 * h] *= shrink;
                out[d][2 * h + 1] *= shrink;
            }
        }
#pragma unroll
        for (int j = 0; j < keys_a_tile / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[j][i] = exp2f(scores[j][i] - origin[i / 2]);
                total[i / 2] += scores[j][i];
            }
#pragma unroll
        for (int j = 0; j < keys_a_tile / 16; ++j) {
            const std::uint32_t a[4] = {pair<T>(scores[2 * j][0], scores[2 * j][1]),
                                        pair<T>(scores[2 * j][2], scores[2 * j][3]),
                                        pair<T>(scores[2 * j + 1][0], scores[2 * j + 1][1]),
                                        pair<T>(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
            for (int d = 0; d < Depth / 16; ++d) {
                std::uint32_t b[4];
                load_transposed(b, value_from + static_cast<std::uint32_t>(j * 16 * pitch + d * 32));
                multiply<T>(out[2 * d], a, b[0], b[1]);
                multiply<T>(out[2 * d + 1], a, b[2], b[3]);
            }
        }
    };
    for (int round = 0; round < count; ++round) {
        if constexpr (stages == 2) {
            if (round + 1 < count) fetch_tiles(round + 1);
            mma::copy_commit();
            mma::copy_wait<1>();
        } else {
            mma::copy_wait<0>();
        }
        __syncthreads();
        if constexpr (keeps_queries) {
            if (round == 0) {
#pragma unroll
                for (int s = 0; s < steps; ++s)
                    mma::load_matrices(q[s], query_from + static_cast<std::uint32_t>(s * 32));
            }
        }
        const int key0 = round * keys_a_round + warp_key;
        if (Split == 1 || key0 < limit) attend(key0, tiles + round % stages * (2 * keys_a_round * pitch));
        __syncthreads(); // the next fetch writes where this tile lies
        if constexpr (stages == 1) {
            if (round + 1 < count) fetch_tiles(round + 1);
            mma::copy_commit();
        }
    }
    mma::copy_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(0xffffffffU, total[h], 1);
        total[h] += __shfl_xor_sync(0xffffffffU, total[h], 2);
    }
    if constexpr (Split > 1) {
        float* sums = reinterpret_cast<float*>(tiles); // [Split][16][Depth]
        float *highest = sums + Split * 16 * joined_pitch(Depth), *totals = highest + Split * 16;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int at = warp * 16 + g + h * 8;
            if (t == 0) highest[at] = largest[h], totals[at] = total[h];
#pragma unroll
            for (int d = 0; d < Depth / 8; ++d)
                *reinterpret_cast<float2*>(sums + at * joined_pitch(Depth) + d * 8 + t * 2) =
                    make_float2(out[d][2 * h], out[d][2 * h + 1]);
        }
        __syncthreads();
        constexpr int threads_a_row = Split * 2;
        const int mine = thread / threads_a_row;
        if (row0 + mine >= q_len) return;
        float most = -INFINITY, all = 0, weights[Split];
#pragma unroll
        for (int w = 0; w < Split; ++w)
            most = fmaxf(most, highest[w * 16 + mine]);
        const float origin = most == -INFINITY ? 0.0F : most;
#pragma unroll
        for (int w = 0; w < Split; ++w) {
            weights[w] = exp2f(highest[w * 16 + mine] - origin);
            all = fmaf(totals[w * 16 + mine], weights[w], all);
        }
        const float inverse = all == 0 && p.empty_is_zero != 0 ? 0.0F : 1.0F / all;
        T* to =
            static_cast<T*>(p.output) + batch * p.o_strides[0] + (row0 + mine) * p.o_strides[1] + head * p.o_strides[2];
        for (int d = thread % threads_a_row * 2; d < values; d += threads_a_row * 2) {
            float two[2] = {};
#pragma unroll
            for (int w = 0; w < Split; ++w) {
                const float2 part = *reinterpret_cast<const float2*>(sums + (w * 16 + mine) * joined_pitch(Depth) + d);
                two[0] = fmaf(part.x, weights[w], two[0]);
                two[1] = fmaf(part.y, weights[w], two[1]);
            }
            if (aligned) {
                *reinterpret_cast<std::uint32_t*>(to + d) = pair<T>(two[0] * inverse, two[1] * inverse);
            } else {
                to[d] = from_float<T>(two[0] * inverse);
                if (d + 1 < values) to[d + 1] = from_float<T>(two[1] * inverse);
            }
        }
    } else {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (row + h * 8 >= q_len) continue;
            // Without scores: 0 times infinity, NaN, where it is not to be 0.
            const float inverse = total[h] == 0 && p.empty_is_zero != 0 ? 0.0F : 1.0F / total[h];
            T* to = static_cast<T*>(p.output) + batch * p.o_strides[0] + (row + h * 8) * p.o_strides[1] +
                    head * p.o_strides[2] + t * 2;
#pragma unroll
            for (int d = 0; d < Depth / 8; ++d) {
                if (d * 8 >= values) continue;
                if (!aligned) {
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        if (d * 8 + t * 2 + i < values) to[d * 8 + i] = from_float<T>(out[d][2 * h + i] * inverse);
                    continue;
                }
                *reinterpret_cast<std::uint32_t*>(to + d * 8) =
                    pair<T>(out[d][2 * h] * inverse, out[d][2 * h + 1] * inverse);
            }
        }
    }
}

template <class T, int Depth, int Split>
cudaError_t launch_kernel_of(const AttentionParams& p, FlashTile tile, cudaStream_t stream, bool programmatic) {
    const int shared = shared_for(Depth, tile.rows(), Split);
    static_assert(Split * 16 * (joined_pitch(Depth) + 2) * 4 <= shared_for(Depth, 0, Split) || Split == 1);
    if (const cudaError_t code =
            cudaFuncSetAttribute(attention_flash<T, Depth, Split>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        code != cudaSuccess)
        return code;
    return launch_kernel(
        attention_flash<T, Depth, Split>,
        dim3(blocks_for(p.q_len, tile.rows()), static_cast<unsigned>(p.heads), static_cast<unsigned>(p.batch)),
        static_cast<unsigned>(tile.warps * 32), static_cast<std::size_t>(shared), stream, programmatic, 1, p);
}
template <class T, int Depth>
cudaError_t launch_depth(const AttentionParams& p, FlashTile tile, cudaStream_t stream, bool programmatic) {
    return tile.split ? launch_kernel_of<T, Depth, 4>(p, tile, stream, programmatic)
                      : launch_kernel_of<T, Depth, 1>(p, tile, stream, programmatic);
}

constexpr int depths[] = {32, 48, 64, 80, 96, 128, 160, 256};

int rounded_depth(const AttentionParams& p) {
    for (const int each : depths)
        if (each >= p.depth && each >= p.value_depth) return each;
    return 0;
}

template <class T>
cudaError_t launch_type(const AttentionParams& p, FlashTile tile, cudaStream_t stream, bool programmatic) {
    switch (rounded_depth(p)) {
        case 32: return launch_depth<T, 32>(p, tile, stream, programmatic);
        case 48: return launch_depth<T, 48>(p, tile, stream, programmatic);
        case 64: return launch_depth<T, 64>(p, tile, stream, programmatic);
        case 80: return launch_depth<T, 80>(p, tile, stream, programmatic);
        case 96: return launch_depth<T, 96>(p, tile, stream, programmatic);
        case 128: return launch_depth<T, 128>(p, tile, stream, programmatic);
        case 160: return launch_depth<T, 160>(p, tile, stream, programmatic);
        case 256: return launch_depth<T, 256>(p, tile, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

} // namespace

bool attention_flash_takes(const AttentionParams& p) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    const bool type = (p.type == type_f16 || p.type == type_bf16) && p.output_type == p.type &&
                      (p.masks < 1 || p.mask.type == p.type) && (p.masks < 2 || p.second_mask.type == p.type);
    return type && p.depth >= 1 && p.value_depth >= 1 && rounded_depth(p) != 0 && p.kv_len >= 1 && p.kv_len < most &&
           p.q_len >= 1 && p.q_len < most && p.heads < 65536 && p.batch < 65536;
}

std::size_t attention_flash_shared_bytes(const AttentionParams& p, FlashTile tile) {
    return static_cast<std::size_t>(shared_for(rounded_depth(p), tile.rows(), tile.split ? tile.warps : 1));
}

cudaError_t launch_attention_flash(const AttentionParams& p, FlashTile tile, cudaStream_t stream, bool programmatic) {
    const bool known = tile.split ? tile.warps == 4 : tile.warps == 1 || tile.warps == 2 || tile.warps == 4;
    if (!attention_flash_takes(p) || !known) return cudaErrorInvalidValue;
    return p.type == type_f16 ? launch_type<__half>(p, tile, stream, programmatic)
                              : launch_type<__nv_bfloat16>(p, tile, stream, programmatic);
}

} // namespace lathe::cuda::kernels
