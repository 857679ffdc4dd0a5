#pragma once
// Products on mma.sync whose operands a thread loads for itself, 4 to 16 bytes at a time, with no shared memory
// between.
//
// A fragment's rows and reduction indices may be any pixels and any channels, if the weights' fragment is permuted
// alike. So lane (g = lane / 4, q = lane % 4) loads neighbouring channels of pixels of its own; register i of all four
// lanes q is one block of the reduction, and the order in which output channels lie in the tiles is chosen so that the
// lane gets neighbouring channels back: one store of 8 or 16 bytes a pixel.

#include "backends/cuda/kernels/bytes.cuh"
#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels::quads {

/// Sums of s8 begin at 1.5 * 2^23 as a float's bits: while they stay below 2^22 the bits are that float plus the sum.
inline constexpr float magic = 12582912.0F;
inline constexpr std::uint32_t magic_bits = 0x4b400000U;
/// Products of one s8 sum that stay below 2^22.
inline constexpr int most_s8_products = 256;

/// An epilogue that ends in a clamp of numbers as stored. s8: round(range * saturate(v * a + b) + lowest) with a and b
/// of a channel divided by `range`; f16, bf16: clamp of the rounded value, which is the rounded clamp. With a curve
/// before it a and b are the channel's own and `after` and `shift` bring the curve's result there.
struct Clamp {
    float range, lowest;        ///< s8, whole numbers
    float range_inverse;        ///< 1 / range; curved: 1
    float base;                 ///< what channel_pair takes from the bias: `lowest`; curved: 0
    std::uint32_t low, high;    ///< f16 or bf16, twice
    float output_scale_inverse; ///< curved: 1
    float residual_factor;      ///< s8: residual_scale times the above, divided by range; curved: residual_scale
    std::int32_t curved;        ///< more than a clamp lies behind the sums (activate_quickly)
    float after, shift;         ///< curved s8
};

/// Whether more than a clamp lies behind the sums: a curve, or a residual that is added behind the activation.
bool is_curved(const EpilogueParams& e);
/// Whether `e` is a clamp of numbers of this type.
bool clamp_takes(const EpilogueParams& e, std::int32_t output_type);
/// The same for a clamp or a curve that ends in one.
bool curve_takes(const EpilogueParams& e, std::int32_t output_type);
/// Of what `clamp_takes` or `curve_takes` says is one.
Clamp clamp_of(const EpilogueParams& e, std::int32_t output_type);

/// What T is multiplied, summed and stored with. `multiply`: sums += a * b with two registers of the reduction (a block
/// each), a0, a2 the first 8 rows and a1, a3 the other 8; or with one.
template <class T>
struct Number;
template <>
struct Number<__half> {
    using Sum = float;
    static constexpr int of_word = 2, parts = 1;
    static __device__ __forceinline__ Sum zero() { return 0; }
    static __device__ __forceinline__ float value(Sum v) { return v; }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                                    std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(b0));
    }
    /// A word of two numbers.
    static __device__ __forceinline__ std::uint32_t clamp(float v0, float v1, const Clamp& clamp) {
        __half2 h = __floats2half2_rn(v0, v1);
        h = __hmin2(__hmax2(h, *reinterpret_cast<const __half2*>(&clamp.low)),
                    *reinterpret_cast<const __half2*>(&clamp.high));
        return *reinterpret_cast<const std::uint32_t*>(&h);
    }
};
template <>
struct Number<__nv_bfloat16> {
    using Sum = float;
    static constexpr int of_word = 2, parts = 1;
    static __device__ __forceinline__ Sum zero() { return 0; }
    static __device__ __forceinline__ float value(Sum v) { return v; }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                                    std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(b0));
    }
    static __device__ __forceinline__ std::uint32_t clamp(float v0, float v1, const Clamp& clamp) {
        __nv_bfloat162 h = __floats2bfloat162_rn(v0, v1);
        h = __hmin2(__hmax2(h, *reinterpret_cast<const __nv_bfloat162*>(&clamp.low)),
                    *reinterpret_cast<const __nv_bfloat162*>(&clamp.high));
        return *reinterpret_cast<const std::uint32_t*>(&h);
    }
};
template <>
struct Number<std::int8_t> {
    using Sum = std::uint32_t;
    static constexpr int of_word = 4, parts = 2; ///< 8 columns of a tile take half of a word's channels
    static __device__ __forceinline__ Sum zero() { return 0; }
    static __device__ __forceinline__ float value(Sum v) { return __int2float_rn(static_cast<int>(v)); }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                                    std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void multiply(Sum (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(b0));
    }
};

/// Words words from global memory, or `other` in each; the address is a multiple of their size. One predicated load, no
/// branch.
template <int Words>
__device__ __forceinline__ void load_words(std::uint32_t* to, const void* from, bool valid, std::uint32_t other = 0) {
    static_assert(Words == 1 || Words == 2 || Words == 4);
    if constexpr (Words == 4)
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.u32 %0, %6;\nmov.u32 %1, %6;\nmov.u32 %2, %6;\n"
                     "mov.u32 %3, %6;\n@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                     : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
                     : "l"(from), "r"(static_cast<std::uint32_t>(valid)), "r"(other));
    else if constexpr (Words == 2)
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\nmov.u32 %0, %4;\nmov.u32 %1, %4;\n"
                     "@p ld.global.v2.u32 {%0, %1}, [%2];\n}"
                     : "=&r"(to[0]), "=&r"(to[1])
                     : "l"(from), "r"(static_cast<std::uint32_t>(valid)), "r"(other));
    else
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.u32 %0, %3;\n@p ld.global.u32 %0, [%1];\n}"
                     : "=&r"(to[0])
                     : "l"(from), "r"(static_cast<std::uint32_t>(valid)), "r"(other));
}
/// The same from shared memory.
template <int Words>
__device__ __forceinline__ void load_shared(std::uint32_t* to, const std::uint32_t* from) {
    if constexpr (Words == 4) {
        const uint4 v = *reinterpret_cast<const uint4*>(from);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (Words == 2) {
        const uint2 v = *reinterpret_cast<const uint2*>(from);
        to[0] = v.x, to[1] = v.y;
    } else {
        to[0] = *from;
    }
}
template <int Words>
__device__ __forceinline__ void store_words(void* to, const std::uint32_t* from) {
    static_assert(Words == 1 || Words == 2 || Words == 4);
    if constexpr (Words == 4)
        *static_cast<uint4*>(to) = make_uint4(from[0], from[1], from[2], from[3]);
    else if constexpr (Words == 2)
        *static_cast<uint2*>(to) = make_uint2(from[0], from[1]);
    else
        *static_cast<std::uint32_t*>(to) = from[0];
}

/// Scale and bias of two neighbouring channels as the kernels use them: (a0, a1, b0, b1). Padding gets zeros, which a
/// clamp that holds 0 stores as 0.
template <class Out>
__device__ __forceinline__ float4 channel_pair(const EpilogueParams& e, const Clamp& clamp, int channel, int channels) {
    float4 v;
    float* a = reinterpret_cast<float*>(&v);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const bool real = channel + i < channels;
        a[i] = real ? (e.scale != nullptr ? e.scale[channel + i] : 1.0F) * clamp.output_scale_inverse : 0.0F;
        a[2 + i] = real && e.bias != nullptr ? e.bias[channel + i] * clamp.output_scale_inverse : 0.0F;
        if constexpr (sizeof(Out) == 1) {
            a[i] *= clamp.range_inverse;
            a[2 + i] = (a[2 + i] - clamp.base) * clamp.range_inverse;
        }
    }
    return v;
}

/// A curve's results (with the residual behind it) as Out's clamp takes them.
template <class Out, int Count>
__device__ __forceinline__ void as_stored(float (&v)[Count], const Clamp& clamp) {
    if constexpr (sizeof(Out) == 1) {
#pragma unroll
        for (float& x : v)
            x = fmaf(x, clamp.after, clamp.shift);
    }
}

/// v: scaled, with bias and residual, divided by the range. The byte is the result's lowest.
__device__ __forceinline__ std::uint32_t clamp_byte(float v, const Clamp& clamp) {
    return __float_as_uint(fmaf(__saturatef(v), clamp.range, magic + clamp.lowest));
}

/// Types of depthwise convolutions: launch(input, result) is called with a number of each.
inline bool are_types(std::int32_t in, std::int32_t out) {
    if (in != type_s8 && in != type_f16 && in != type_bf16) return false;
    return in == out || (in == type_s8 && out == type_f16);
}
template <class Launch>
cudaError_t launch_of_types(std::int32_t in, std::int32_t out, const Launch& launch) {
    if (!are_types(in, out)) return cudaErrorInvalidValue;
    if (in == type_f16) return launch(__half{}, __half{});
    if (in == type_bf16) return launch(__nv_bfloat16{}, __nv_bfloat16{});
    return out == type_s8 ? launch(std::int8_t{}, std::int8_t{}) : launch(std::int8_t{}, __half{});
}

} // namespace lathe::cuda::kernels::quads
