// Attention over at most 64 keys: windows, the tokens of one patch, the last stages of pyramids. A warp has 16 rows of
// Q of one head and all of its keys; products of f16 or bf16 on mma.sync, nothing in shared memory.
//
// A lane loads the fragments for itself (quads.cuh): lane (g, t) has numbers t * Vec of a row's groups of 4 * Vec, rows
// g of Q, K and V. A product's reduction may take them in any order, so Q and K need no more. Keys are the reduction of
// the second product: movmatrix turns V's words in registers, and column n of word i is then number n / 2 * Vec + 2 * i
// + n % 2, so that a lane gets Vec neighbouring numbers of the result.

#include <type_traits>

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/quads.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 128, most_keys = 64, most_depth = 64;
constexpr float log2_e = 1.4426950408889634F;

__device__ __forceinline__ std::uint32_t turned(std::uint32_t word) {
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
    return word;
}

/// A lane's numbers of a row, zeros beyond `depth`.
template <int Words, int Vec, class T>
__device__ __forceinline__ void load_row(std::uint32_t (&to)[Words], const T* row, bool valid, int depth, int t) {
#pragma unroll
    for (int w = 0; w < Words; w += Vec / 2) {
        const int d = w * 8 + t * Vec;
        quads::load_words<Vec / 2>(to + w, row + d, valid && d < depth);
    }
}

/// Words: 8 numbers each, of the wider of keys and values; Tiles: of 8 keys.
template <class T, int Words, int Vec, int Tiles>
__global__ void __launch_bounds__(threads)
    attention_short(const __grid_constant__ AttentionParams p, std::int32_t row_tiles, std::int32_t units) {
    using Number = quads::Number<T>;
    static_assert(Words % 2 == 0 && Tiles % 2 == 0 && Words % (Vec / 2) == 0);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane >> 2, t = lane & 3;
    const int unit = static_cast<int>(blockIdx.x) * (threads / 32) + thread / 32;
    pdl_wait();
    pdl_trigger();
    if (unit >= units) return; // whole warps
    // Neighbouring warps have neighbouring heads, whose rows share the memory's sectors.
    const int heads = static_cast<int>(p.heads), head = unit % heads, rest = unit / heads;
    const int row = rest % row_tiles * 16 + g; // and row + 8
    const std::int64_t batch = rest / row_tiles;
    const int key_head = head / (heads / static_cast<int>(p.kv_heads));
    const int q_len = static_cast<int>(p.q_len), kv_len = static_cast<int>(p.kv_len), ahead = kv_len - q_len;
    const int depth = static_cast<int>(p.depth), values = static_cast<int>(p.value_depth);
    const auto base = [&](const void* from, const std::int64_t(&strides)[3], int which) {
        return static_cast<const T*>(from) + batch * strides[0] + which * strides[2];
    };

    std::uint32_t q[2][Words];
    const T* queries = base(p.q, p.q_strides, head);
#pragma unroll
    for (int half = 0; half < 2; ++half)
        load_row<Words, Vec>(q[half], queries + (row + half * 8) * p.q_strides[1], row + half * 8 < q_len, depth, t);
    float scores[Tiles][4] = {};
    const T* keys = base(p.k, p.k_strides, key_head);
#pragma unroll
    for (int j = 0; j < Tiles; ++j) {
        std::uint32_t k[Words];
        load_row<Words, Vec>(k, keys + (j * 8 + g) * p.k_strides[1], j * 8 + g < kv_len, depth, t);
#pragma unroll
        for (int w = 0; w < Words; w += 2)
            Number::multiply(scores[j], q[0][w], q[1][w], q[0][w + 1], q[1][w + 1], k[w], k[w + 1]);
    }

    const T* masks[2][2] = {};
    const auto mask_row = [&](const AttentionMask& mask, int half) {
        const int r = row + half * 8 < q_len ? row + half * 8 : q_len - 1;
        return static_cast<const T*>(mask.data) + batch % mask.batches * mask.batch_stride + head * mask.head_stride +
               r * mask.row_stride;
    };
    if (p.masks > 0) masks[0][0] = mask_row(p.mask, 0), masks[0][1] = mask_row(p.mask, 1);
    if (p.masks > 1) masks[1][0] = mask_row(p.second_mask, 0), masks[1][1] = mask_row(p.second_mask, 1);
    const float scale = p.scale * log2_e;
    float highest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < Tiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int key = j * 8 + t * 2 + i % 2, half = i / 2;
            float v = -INFINITY;
            if (key < kv_len && (p.causal == 0 || key <= row + half * 8 + ahead)) {
                v = scores[j][i] * scale;
                if (p.masks > 0) v = fmaf(to_float(masks[0][half][key]), log2_e, v);
                if (p.masks > 1) v = fmaf(to_float(masks[1][half][key]), log2_e, v);
            }
            scores[j][i] = v;
            highest[half] = fmaxf(highest[half], v);
        }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        highest[half] = fmaxf(highest[half], __shfl_xor_sync(0xffffffffU, highest[half], 1));
        highest[half] = fmaxf(highest[half], __shfl_xor_sync(0xffffffffU, highest[half], 2));
        if (highest[half] == -INFINITY) highest[half] = 0; // no difference of infinities
    }
#pragma unroll
    for (int j = 0; j < Tiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            scores[j][i] = exp2f(scores[j][i] - highest[i / 2]);
            total[i / 2] += scores[j][i];
        }

    float out[Words][4] = {};
    const T* from = base(p.v, p.v_strides, key_head);
#pragma unroll
    for (int j = 0; j < Tiles; j += 2) {
        std::uint32_t v[2][Words];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int key = (j + i) * 8 + g;
            load_row<Words, Vec>(v[i], from + key * p.v_strides[1], key < kv_len, values, t);
        }
        const std::uint32_t a[4] = {pack_pair<T>(scores[j][0], scores[j][1]), pack_pair<T>(scores[j][2], scores[j][3]),
                                    pack_pair<T>(scores[j + 1][0], scores[j + 1][1]),
                                    pack_pair<T>(scores[j + 1][2], scores[j + 1][3])};
#pragma unroll
        for (int w = 0; w < Words; ++w)
            Number::multiply(out[w], a[0], a[1], a[2], a[3], turned(v[0][w]), turned(v[1][w]));
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(0xffffffffU, total[half], 1);
        total[half] += __shfl_xor_sync(0xffffffffU, total[half], 2);
        if (row + half * 8 >= q_len) continue;
        // Without scores: 0 times infinity, NaN, where it is not to be 0.
        const float inverse = total[half] == 0 && p.empty_is_zero != 0 ? 0.0F : 1.0F / total[half];
        T* to = static_cast<T*>(p.output) + batch * p.o_strides[0] + (row + half * 8) * p.o_strides[1] +
                head * p.o_strides[2];
#pragma unroll
        for (int w = 0; w < Words; w += Vec / 2) {
            const int d = w * 8 + t * Vec;
            if (d >= values) continue;
            std::uint32_t words[Vec / 2];
#pragma unroll
            for (int i = 0; i < Vec / 2; ++i)
                words[i] = pack_pair<T>(out[w + i][2 * half] * inverse, out[w + i][2 * half + 1] * inverse);
            quads::store_words<Vec / 2>(to + d, words);
        }
    }
}

/// Neighbouring numbers of a row that a lane loads at once; 0: not even two.
int vector_of(const AttentionParams& p) {
    std::int64_t all = p.depth | p.value_depth | p.q_offset | p.k_offset | p.v_offset | p.o_offset;
    for (int i = 0; i < 3; ++i)
        all |= p.q_strides[i] | p.k_strides[i] | p.v_strides[i] | p.o_strides[i];
    const bool wide = p.depth > 16 || p.value_depth > 16;
    if (wide && all % 8 == 0) return 8;
    if (!wide && all % 4 == 0) return 4;
    return all % 2 == 0 ? 2 : 0;
}
std::int64_t units_of(const AttentionParams& p) { return p.batch * p.heads * ((p.q_len + 15) / 16); }

template <class T, int Words, int Vec, int Tiles>
cudaError_t launch_one(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    const auto units = static_cast<std::int32_t>(units_of(p));
    return launch_kernel(attention_short<T, Words, Vec, Tiles>, blocks_for(units, threads / 32), threads, 0, stream,
                         programmatic, 1, p, static_cast<std::int32_t>((p.q_len + 15) / 16), units);
}
template <class T, int Words, int Vec>
cudaError_t launch_keys(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (p.kv_len <= 16) return launch_one<T, Words, Vec, 2>(p, stream, programmatic);
    if (p.kv_len <= 32) return launch_one<T, Words, Vec, 4>(p, stream, programmatic);
    return launch_one<T, Words, Vec, 8>(p, stream, programmatic);
}
template <class T>
cudaError_t launch_depth(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t wider = p.depth > p.value_depth ? p.depth : p.value_depth;
    const int vector = vector_of(p);
    if (wider <= 16)
        return vector == 4 ? launch_keys<T, 2, 4>(p, stream, programmatic)
                           : launch_keys<T, 2, 2>(p, stream, programmatic);
    if (wider <= 32)
        return vector == 8 ? launch_keys<T, 4, 8>(p, stream, programmatic)
                           : launch_keys<T, 4, 2>(p, stream, programmatic);
    return vector == 8 ? launch_keys<T, 8, 8>(p, stream, programmatic) : launch_keys<T, 8, 2>(p, stream, programmatic);
}

} // namespace

bool attention_short_takes(const AttentionParams& p) {
    const bool type = (p.type == type_f16 || p.type == type_bf16) && p.output_type == p.type &&
                      (p.masks < 1 || p.mask.type == p.type) && (p.masks < 2 || p.second_mask.type == p.type);
    return type && p.depth >= 1 && p.depth <= most_depth && p.value_depth >= 1 && p.value_depth <= most_depth &&
           p.kv_len >= 1 && p.kv_len <= most_keys && p.q_len >= 1 && p.q_len < (1 << 30) && vector_of(p) != 0 &&
           p.batch < (1 << 30) && p.heads < (1 << 20) && units_of(p) < 0x7ffffff0;
}

cudaError_t launch_attention_short(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (!attention_short_takes(p)) return cudaErrorInvalidValue;
    return p.type == type_f16 ? launch_depth<__half>(p, stream, programmatic)
                              : launch_depth<__nv_bfloat16>(p, stream, programmatic);
}

} // namespace lathe::cuda::kernels
