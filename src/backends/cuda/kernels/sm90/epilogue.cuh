#pragma once
// From sums in shared memory to finished output rows: scale, bias, residual, activation, rounding; 16 bytes a thread.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels/bytes.cuh"
#include "backends/cuda/kernels/gelu.cuh"
#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"

namespace lathe::cuda::kernels::sm90 {

/// The number of a type; see kernels::Type.
template <class T>
inline constexpr int type_of = -1;
template <>
inline constexpr int type_of<float> = type_f32;
template <>
inline constexpr int type_of<__half> = type_f16;
template <>
inline constexpr int type_of<__nv_bfloat16> = type_bf16;
template <>
inline constexpr int type_of<std::int8_t> = type_s8;

/// What the epilogue writes, as all blocks see it. Elements of a row: k of k_stride are channels, the rest is padding;
/// rows are k_pitch apart.
struct Destination {
    void* output;
    EpilogueParams epilogue; ///< low and high hold the bounds for none and relu too
    std::int32_t rows, k, k_stride, k_pitch, type;
    bool vectors;    ///< rows begin at multiples of 16 bytes
    bool direct;     ///< the weights' rows were dealt for it (channel_of_column) and activation and scale are simple
    bool curved;     ///< direct, but more than bounds lies behind the sums (bend)
    bool small_sums; ///< int8: no sum exceeds 2^22, so that sums may begin at `sum_origin`
    /// Direct to int8: values are brought to 0..1 between the bounds, so that the multiply-add cuts them off. The
    /// bounds are whole numbers, `lowest` and `lowest` + `steps`; `per_step` is 1 / steps. Else 0, 1, 1; what is curved
    /// comes to 0..1 behind the activation, by `unit` and `zero`. `bottom`: the lower bound, whichever way.
    float lowest, steps, per_step, bottom, unit, zero;
};

/// 1.5 * 2^23. As an int it is the float's bits: a sum of less than 2^22 added to them is that float plus the sum.
inline constexpr float magic = 12582912.0F;
inline constexpr std::int32_t sum_origin = 0x4B400000;

/// The rows that this block finishes: `parts` copies to be summed lie one after another in `staging`.
struct Slice {
    std::uint32_t staging;
    int row, count, parts; ///< row: of the output; count: rows of a part
    int column;            ///< of the tile
};

__device__ inline float max_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ inline float min_nan(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

/// Activations other than none, relu and clip; numbers are those of lathe::cuda::Activation. No function calls: one
/// anywhere in a kernel makes the compiler wait after every wgmma (an exact division is a call).
__device__ inline float activate(float x, std::int32_t act, float alpha, float beta) {
    switch (act) {
        case 3: return x >= 0 ? x : x * alpha;
        case 4: return fast_gelu(x);
        case 5: return fast_gelu_tanh(x);
        case 6: return __fdividef(1, 1 + expf(-x));
        case 7: return __fdividef(x, 1 + expf(-x));
        case 8: return __saturatef(alpha * x + beta);
        case 9: return x * __saturatef(x * (1.0F / 6) + 0.5F);
        default: return tanhf(x);
    }
}
/// What is quick enough to stand behind all sums: leaky relu, GELU, SiLU, hard swish, or bounds before a residual.
template <int V>
__device__ inline void bend(float (&v)[V], const EpilogueParams& epilogue) {
    if (epilogue.act == 7) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = __fdividef(v[i], 1 + __expf(-v[i]));
    } else if (epilogue.act == 9) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] *= __saturatef(fmaf(v[i], 1.0F / 6, 0.5F));
    } else if (epilogue.act == 3) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = v[i] >= 0 ? v[i] : v[i] * epilogue.alpha;
    } else if (epilogue.act == 4) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = fast_gelu(v[i]);
    } else if (epilogue.act == 5) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = fast_gelu_tanh(v[i]);
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = min_nan(max_nan(v[i], epilogue.low), epilogue.high);
    }
}
/// All of a vector, two at a time: the code is there once and indices stay known, since the vector turns.
template <int V>
__device__ inline void activate(float (&v)[V], const EpilogueParams& epilogue) {
#pragma unroll 1
    for (int turn = 0; turn < V / 2; ++turn) {
        const float a = activate(v[0], epilogue.act, epilogue.alpha, epilogue.high);
        const float b = activate(v[1], epilogue.act, epilogue.alpha, epilogue.high);
#pragma unroll
        for (int i = 0; i < V - 2; ++i)
            v[i] = v[i + 2];
        v[V - 2] = a;
        v[V - 1] = b;
    }
}

__device__ inline float unpack_s8(std::uint32_t word, int byte) {
    return static_cast<float>(static_cast<std::int8_t>(word >> (8 * byte)));
}
__device__ inline float2 unpack(std::uint32_t word, __half) {
    __half2 pair;
    *reinterpret_cast<std::uint32_t*>(&pair) = word;
    return __half22float2(pair);
}
__device__ inline float2 unpack(std::uint32_t word, __nv_bfloat16) {
    __nv_bfloat162 pair;
    *reinterpret_cast<std::uint32_t*>(&pair) = word;
    return __bfloat1622float2(pair);
}
__device__ inline std::uint32_t pack(float low, float high, __half) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline std::uint32_t pack(float low, float high, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
}
/// Round to nearest even, saturate.
__device__ inline std::uint32_t pack_s8(float a, float b, float c, float d) {
    std::uint32_t high, result;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(__float2int_rn(d)), "r"(__float2int_rn(c)));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(high));
    return result;
}

/// 16 bytes of output of type Out.
template <class Out>
struct Vector {
    static constexpr int size = 8;
    __device__ static uint4 make(const float (&v)[8]) {
        return {pack(v[0], v[1], Out{}), pack(v[2], v[3], Out{}), pack(v[4], v[5], Out{}), pack(v[6], v[7], Out{})};
    }
    __device__ static void split(const uint4& x, float (&v)[8]) {
        const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = unpack(words[i], Out{});
            v[2 * i] = pair.x;
            v[2 * i + 1] = pair.y;
        }
    }
};
template <>
struct Vector<float> {
    static constexpr int size = 4;
    __device__ static uint4 make(const float (&v)[4]) {
        return {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])};
    }
    __device__ static void split(const uint4& x, float (&v)[4]) {
        v[0] = __uint_as_float(x.x), v[1] = __uint_as_float(x.y), v[2] = __uint_as_float(x.z),
        v[3] = __uint_as_float(x.w);
    }
};
template <>
struct Vector<std::int8_t> {
    static constexpr int size = 16;
    __device__ static uint4 make(const float (&v)[16]) {
        return {pack_s8(v[0], v[1], v[2], v[3]), pack_s8(v[4], v[5], v[6], v[7]), pack_s8(v[8], v[9], v[10], v[11]),
                pack_s8(v[12], v[13], v[14], v[15])};
    }
    __device__ static void split(const uint4& x, float (&v)[16]) {
        const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 16; ++i)
            v[i] = unpack_s8(words[i / 4], i % 4);
    }
};

/// Residual values of one vector, as floats; elements outside the row are 0.
template <class Out, int V>
__device__ inline void load_residual(const Destination& to, std::size_t offset, int valid, float (&v)[V]) {
    if (to.epilogue.residual_is_s8) {
        const auto* from = static_cast<const std::int8_t*>(to.epilogue.residual) + offset;
        if (to.vectors && (V < 16 || sizeof(Out) == 1)) {
            std::uint32_t words[V / 4];
            if constexpr (V == 16) {
                const uint4 x = __ldcg(reinterpret_cast<const uint4*>(from));
                words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
            } else {
#pragma unroll
                for (int i = 0; i < V / 4; ++i)
                    words[i] = __ldcg(reinterpret_cast<const unsigned*>(from) + i);
            }
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = unpack_s8(words[i / 4], i % 4);
        } else {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = i < valid ? static_cast<float>(from[i]) : 0.0F;
        }
        return;
    }
    if constexpr (sizeof(Out) > 1) {
        const auto* from = static_cast<const Out*>(to.epilogue.residual) + offset;
        if (to.vectors) {
            Vector<Out>::split(__ldcg(reinterpret_cast<const uint4*>(from)), v);
        } else {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = i < valid ? static_cast<float>(from[i]) : 0.0F;
        }
    }
}

__device__ inline void store_one(void* output, std::size_t at, float value, std::int8_t) {
    static_cast<std::int8_t*>(output)[at] = static_cast<std::int8_t>(pack_s8(value, 0, 0, 0));
}
__device__ inline void store_one(void* output, std::size_t at, float value, float) {
    static_cast<float*>(output)[at] = value;
}
__device__ inline void store_one(void* output, std::size_t at, float value, __half) {
    static_cast<__half*>(output)[at] = __float2half_rn(value);
}
__device__ inline void store_one(void* output, std::size_t at, float value, __nv_bfloat16) {
    static_cast<__nv_bfloat16*>(output)[at] = __float2bfloat16_rn(value);
}

__device__ inline float to_float(std::uint32_t bits, std::int32_t) {
    return static_cast<float>(static_cast<std::int32_t>(bits));
}
__device__ inline float to_float(std::uint32_t bits, float) { return __uint_as_float(bits); }
__device__ inline std::uint32_t sum(std::uint32_t a, std::uint32_t b, std::int32_t) { return a + b; }
__device__ inline std::uint32_t sum(std::uint32_t a, std::uint32_t b, float) {
    return __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
}

/// The V channels next to each other that a thread finishes at once, packed.
template <int BYTES>
struct Packet {
    std::uint32_t words[BYTES < 4 ? 1 : BYTES / 4];
    __device__ void load(const void* from) {
        if constexpr (BYTES == 16) {
            const uint4 x = __ldcg(static_cast<const uint4*>(from));
            words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
        } else if constexpr (BYTES == 8) {
            const uint2 x = __ldcg(static_cast<const uint2*>(from));
            words[0] = x.x, words[1] = x.y;
        } else if constexpr (BYTES == 4) {
            words[0] = __ldcg(static_cast<const unsigned*>(from));
        } else {
            words[0] = __ldcg(static_cast<const unsigned short*>(from));
        }
    }
    __device__ void store(void* to) const {
        if constexpr (BYTES == 16)
            *static_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
        else if constexpr (BYTES == 8)
            *static_cast<uint2*>(to) = {words[0], words[1]};
        else if constexpr (BYTES == 4)
            *static_cast<std::uint32_t*>(to) = words[0];
        else
            *static_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(words[0]);
    }
};

/// V residual values, read ahead.
template <class Out, int V>
struct Residual {
    static constexpr int bytes = V * static_cast<int>(sizeof(Out));
    Packet<bytes> packet;
    __device__ void load(const Destination& to, std::size_t offset) {
        if constexpr (sizeof(Out) > 1) {
            if (to.epilogue.residual_is_s8) {
                Packet<V> narrow;
                narrow.load(static_cast<const std::int8_t*>(to.epilogue.residual) + offset);
#pragma unroll
                for (int i = 0; i < (V < 4 ? 1 : V / 4); ++i)
                    packet.words[i] = narrow.words[i];
                return;
            }
        }
        packet.load(static_cast<const Out*>(to.epilogue.residual) + offset);
    }
    /// v += residual * factor, int8 in 0..1
    __device__ void add(const Destination& to, float (&v)[V]) const {
        const float factor = to.epilogue.residual_scale * to.per_step;
        if (sizeof(Out) == 1 || to.epilogue.residual_is_s8) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = fmaf(flipped_byte_value(packet.words[i / 4] ^ 0x80808080U, i % 4), factor, v[i]);
            return;
        }
        if constexpr (sizeof(Out) == 2) {
#pragma unroll
            for (int i = 0; i < V / 2; ++i) {
                const float2 pair = unpack(packet.words[i], Out{});
                v[2 * i] = fmaf(pair.x, factor, v[2 * i]);
                v[2 * i + 1] = fmaf(pair.y, factor, v[2 * i + 1]);
            }
        } else if constexpr (sizeof(Out) == 4) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = fmaf(__uint_as_float(packet.words[i]), factor, v[i]);
        }
    }
};

/// Sums as floats, in place.
template <int V>
__device__ inline void to_floats(float (&)[V], bool) {}
template <int V>
__device__ inline void to_floats(std::int32_t (&x)[V], bool small_sums) {
    if (small_sums) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            x[i] = __float_as_int(__int_as_float(x[i]) - magic);
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
            x[i] = __float_as_int(static_cast<float>(x[i]));
    }
}
__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(std::int32_t x) { return __int_as_float(x); }

__device__ inline float2 load_shared_pair(std::uint32_t address) {
    float2 value;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
    return value;
}

/// The lowest bytes of V words.
template <int V>
__device__ inline Packet<V> low_bytes(const std::uint32_t (&bits)[V]) {
    Packet<V> packet;
    if constexpr (V == 2) {
        packet.words[0] = __byte_perm(bits[0], bits[1], 0x0040);
    } else {
#pragma unroll
        for (int i = 0; i < V / 4; ++i)
            packet.words[i] = join_bytes(bits[4 * i], bits[4 * i + 1], bits[4 * i + 2], bits[4 * i + 3]);
    }
    return packet;
}

/// V floating-point values that stand for one row's channels next to each other.
template <class Out, int V>
__device__ inline Packet<V* static_cast<int>(sizeof(Out))> packed(const float (&v)[V]) {
    Packet<V* static_cast<int>(sizeof(Out))> packet;
    if constexpr (sizeof(Out) == 2) {
#pragma unroll
        for (int i = 0; i < V / 2; ++i)
            packet.words[i] = pack(v[2 * i], v[2 * i + 1], Out{});
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
            packet.words[i] = __float_as_uint(v[i]);
    }
    return packet;
}

/// Packs V values between their bounds. None, relu or clip alone.
template <class Out, int V>
__device__ inline Packet<V* static_cast<int>(sizeof(Out))> make_packet(const Destination& to, float (&v)[V]) {
    if constexpr (sizeof(Out) == 1) {
        std::uint32_t bits[V];
#pragma unroll
        for (int i = 0; i < V; ++i) // to the nearest even int8, in the lowest byte
            bits[i] = __float_as_uint(fminf(fmaxf(v[i], to.epilogue.low), to.epilogue.high) + magic);
        return low_bytes(bits);
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = min_nan(max_nan(v[i], to.epilogue.low), to.epilogue.high);
        return packed<Out>(v);
    }
}

/// The same for finish_run: int8 comes in 0..1, above and below it saturates (NaN: to the lower bound).
template <class Out, int V>
__device__ inline Packet<V* static_cast<int>(sizeof(Out))> make_last_packet(const Destination& to, float (&v)[V]) {
    if constexpr (sizeof(Out) > 1) {
        return make_packet<Out>(to, v);
    } else {
        const float first = magic + to.bottom;
        std::uint32_t bits[V];
#pragma unroll
        for (int i = 0; i < V; ++i)
            bits[i] = __float_as_uint(fmaf(__saturatef(v[i]), to.steps, first));
        return low_bytes(bits);
    }
}

/// Two rows of a tile that a thread finishes: where its channels of each begin, and whether the row exists.
struct RowPair {
    std::size_t offset[2];
    bool inside[2];
};

/// Finishes V sums (floats by now) of two rows, `skip` channels behind the rows' offsets. `vectors`: their scales in
/// shared memory, biases N floats behind them (load_vectors). For int8 the bounds lie within -128..127.
template <class Out, int V, int N>
__device__ inline void finish_run(const Destination& to, float (&v)[2][V], std::uint32_t vectors,
                                  const Residual<Out, V> (&residual)[2], const RowPair& rows, int skip) {
    if constexpr (V >= 4) {
#pragma unroll
        for (int i = 0; i < V / 4; ++i) {
            const uint4 scale = load_shared(vectors + i * 64), bias = load_shared(vectors + N * 4 + i * 64);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                v[r][4 * i] = fmaf(v[r][4 * i], __uint_as_float(scale.x), __uint_as_float(bias.x));
                v[r][4 * i + 1] = fmaf(v[r][4 * i + 1], __uint_as_float(scale.y), __uint_as_float(bias.y));
                v[r][4 * i + 2] = fmaf(v[r][4 * i + 2], __uint_as_float(scale.z), __uint_as_float(bias.z));
                v[r][4 * i + 3] = fmaf(v[r][4 * i + 3], __uint_as_float(scale.w), __uint_as_float(bias.w));
            }
        }
    } else {
        const float2 scale = load_shared_pair(vectors), bias = load_shared_pair(vectors + N * 4);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            v[r][0] = fmaf(v[r][0], scale.x, bias.x);
            v[r][1] = fmaf(v[r][1], scale.y, bias.y);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (to.epilogue.residual != nullptr && to.epilogue.residual_last == 0) residual[r].add(to, v[r]);
        Packet<V* static_cast<int>(sizeof(Out))> packet;
        if (to.curved) {
            bend(v[r], to.epilogue);
            if (to.epilogue.residual != nullptr && to.epilogue.residual_last != 0) residual[r].add(to, v[r]);
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[r][i] = fmaf(v[r][i], to.unit, to.zero);
            if constexpr (sizeof(Out) > 1)
                packet = packed<Out>(v[r]);
            else
                packet = make_last_packet<Out>(to, v[r]);
        } else {
            packet = make_last_packet<Out>(to, v[r]);
        }
        if (rows.inside[r]) packet.store(static_cast<Out*>(to.output) + rows.offset[r] + skip);
    }
}

/// Called by THREADS threads. Every thread keeps to one group of channels, so that scale and bias stay in registers.
template <class Sum, class Out, int N, int THREADS>
__device__ inline void finish(const Destination& to, const Slice& slice, int thread) {
    constexpr int V = Vector<Out>::size;
    constexpr int groups = N / V;
    constexpr int pitch = staging_pitch(N);
    static_assert(THREADS % groups == 0);
    const int group = thread % groups;
    const int column = slice.column + group * V;
    const int valid = to.k_stride - column;
    if (valid <= 0) return;
    float scale[V], bias[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const bool inside = column + i < to.k;
        scale[i] = !inside ? 0.0F : to.epilogue.scale ? __ldg(to.epilogue.scale + column + i) : 1.0F;
        bias[i] = inside && to.epilogue.bias ? __ldg(to.epilogue.bias + column + i) : 0.0F;
    }
    const int rows = min(slice.count, to.rows - slice.row);
    for (int row = thread / groups; row < rows; row += THREADS / groups) {
        const std::size_t offset = static_cast<std::size_t>(slice.row + row) * to.k_pitch + column;
        float v[V], residual[V];
        if (to.epilogue.residual) load_residual<Out, V>(to, offset, valid, residual);
        const std::uint32_t from = slice.staging + row * pitch;
        std::uint32_t sums[V];
#pragma unroll
        for (int i = 0; i < V / 4; ++i) {
            const uint4 x = load_shared(from + staging_piece(group * (V / 4) + i) * 16);
            sums[4 * i] = x.x, sums[4 * i + 1] = x.y, sums[4 * i + 2] = x.z, sums[4 * i + 3] = x.w;
        }
        for (int part = 1; part < slice.parts; ++part) {
#pragma unroll
            for (int i = 0; i < V / 4; ++i) {
                const uint4 x =
                    load_shared(from + part * slice.count * pitch + staging_piece(group * (V / 4) + i) * 16);
                sums[4 * i] = sum(sums[4 * i], x.x, Sum{});
                sums[4 * i + 1] = sum(sums[4 * i + 1], x.y, Sum{});
                sums[4 * i + 2] = sum(sums[4 * i + 2], x.z, Sum{});
                sums[4 * i + 3] = sum(sums[4 * i + 3], x.w, Sum{});
            }
        }
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = fmaf(to_float(sums[i], Sum{}), scale[i], bias[i]);
        const auto add_residual = [&] {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = fmaf(residual[i], to.epilogue.residual_scale, v[i]);
        };
        if (to.epilogue.residual && to.epilogue.residual_last == 0) add_residual();
        if (to.epilogue.act <= 2) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = min_nan(max_nan(v[i], to.epilogue.low), to.epilogue.high);
        } else {
            activate(v, to.epilogue);
        }
        if (to.epilogue.residual && to.epilogue.residual_last != 0) add_residual();
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] *= to.epilogue.output_scale_inverse;
        if (to.vectors) {
            reinterpret_cast<uint4*>(static_cast<Out*>(to.output) + offset)[0] = Vector<Out>::make(v);
        } else {
#pragma unroll
            for (int i = 0; i < V; ++i)
                if (i < valid) store_one(to.output, offset + i, v[i], Out{});
        }
    }
}

} // namespace lathe::cuda::kernels::sm90
