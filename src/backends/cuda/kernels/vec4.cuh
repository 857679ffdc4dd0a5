#pragma once
// Four neighbouring channels as floats, and the rare activations of four or eight results in one call.

#include "backends/cuda/kernels/bytes.cuh"
#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {

/// Four stored numbers of T in one access.
template <class T>
struct Raw4 {
    using type = uint2;
};
template <>
struct Raw4<float> {
    using type = uint4;
};
template <>
struct Raw4<std::int8_t> {
    using type = std::uint32_t;
};

/// Numbers around an image: zeros, or of int8 its zero point in every byte.
template <class T>
__device__ __forceinline__ typename Raw4<T>::type around_image(std::uint32_t pad_word) {
    if constexpr (sizeof(T) == 1)
        return pad_word;
    else
        return {};
}

template <class T>
__device__ __forceinline__ float4 widen(const typename Raw4<T>::type& raw) {
    if constexpr (sizeof(T) == 4) {
        return make_float4(__uint_as_float(raw.x), __uint_as_float(raw.y), __uint_as_float(raw.z),
                           __uint_as_float(raw.w));
    } else if constexpr (sizeof(T) == 1) {
        const std::uint32_t flipped = raw ^ 0x80808080U;
        const auto number = [flipped](int at) { return flipped_byte_value(flipped, at); };
        return make_float4(number(0), number(1), number(2), number(3));
    } else {
        const T* v = reinterpret_cast<const T*>(&raw);
        return make_float4(to_float(v[0]), to_float(v[1]), to_float(v[2]), to_float(v[3]));
    }
}

/// Four results rounded to int8, the first in the lowest byte.
__device__ __forceinline__ std::uint32_t four_bytes(const float (&v)[4]) {
    std::uint32_t word;
    asm("{\n.reg .b32 high;\ncvt.pack.sat.s8.s32.b32 high, %4, %3, 0;\ncvt.pack.sat.s8.s32.b32 %0, %2, %1, high;\n}"
        : "=r"(word)
        : "r"(__float2int_rn(v[0])), "r"(__float2int_rn(v[1])), "r"(__float2int_rn(v[2])), "r"(__float2int_rn(v[3])));
    return word;
}

/// Stores four results as numbers of a run-time type; `i` is a multiple of 4.
__device__ __forceinline__ void store4(void* data, std::int32_t type, std::int64_t i, const float (&v)[4]) {
    if (type == type_s8) {
        *reinterpret_cast<std::uint32_t*>(static_cast<std::int8_t*>(data) + i) = four_bytes(v);
    } else if (type == type_f32) {
        *reinterpret_cast<float4*>(static_cast<float*>(data) + i) = make_float4(v[0], v[1], v[2], v[3]);
    } else if (type == type_f16) {
        const __half2 a = __floats2half2_rn(v[0], v[1]), b = __floats2half2_rn(v[2], v[3]);
        *reinterpret_cast<uint2*>(static_cast<__half*>(data) + i) =
            make_uint2(*reinterpret_cast<const std::uint32_t*>(&a), *reinterpret_cast<const std::uint32_t*>(&b));
    } else {
        const __nv_bfloat162 a = __floats2bfloat162_rn(v[0], v[1]), b = __floats2bfloat162_rn(v[2], v[3]);
        *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(data) + i) =
            make_uint2(*reinterpret_cast<const std::uint32_t*>(&a), *reinterpret_cast<const std::uint32_t*>(&b));
    }
}

/// Loads four numbers of a run-time type; `i` is a multiple of 4.
__device__ __forceinline__ float4 load4(const void* data, std::int32_t type, std::int64_t i) {
    if (type == type_s8)
        return widen<std::int8_t>(*reinterpret_cast<const std::uint32_t*>(static_cast<const std::int8_t*>(data) + i));
    if (type == type_f32) return *reinterpret_cast<const float4*>(static_cast<const float*>(data) + i);
    const uint2 raw = *reinterpret_cast<const uint2*>(static_cast<const __half*>(data) + i);
    return type == type_f16 ? widen<__half>(raw) : widen<__nv_bfloat16>(raw);
}

struct Four {
    float v[4];
};
/// A call, so that the code of the rarer activations is there once, and one choice for four results; those of
/// activate_quickly stay inline. Quotients are within 2 units of the last place.
static __device__ __noinline__ Four activate_four(Four x, std::int32_t act, float high, float alpha) {
    const auto each = [&x](auto function) {
#pragma unroll
        for (float& v : x.v)
            v = function(v);
    };
    switch (act) {
        case act_sigmoid: each([](float v) { return __fdividef(1.0F, 1.0F + __expf(-v)); }); break;
        case act_hard_sigmoid: each([alpha, high](float v) { return __saturatef(fmaf(alpha, v, high)); }); break;
        default: each([=](float v) { return activate_rare(v, act, high, alpha); }); break;
    }
    return x;
}
__device__ __forceinline__ void activate4(float (&v)[4], const EpilogueParams& e) {
    if (activate_quickly(v, e)) return;
    const Four done = activate_four({{v[0], v[1], v[2], v[3]}}, e.act, e.high, e.alpha);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = done.v[i];
}

/// All activations in one call, for kernels whose code would not fit the instruction cache otherwise.
static __device__ __noinline__ Four activated(Four four, std::int32_t act, float low, float high, float alpha) {
    EpilogueParams e{};
    e.act = act, e.low = low, e.high = high, e.alpha = alpha;
    activate4(four.v, e);
    return four;
}
/// The same with what is short inline: a clamp, SiLU.
__device__ __forceinline__ void activate_briefly(float (&v)[4], const EpilogueParams& e) {
    if (e.act == act_none) return;
    if (e.act <= act_clip) {
        const float low = e.act == act_clip ? e.low : 0.0F, high = e.act == act_clip ? e.high : INFINITY;
#pragma unroll
        for (float& x : v)
            x = fminf(fmaxf(x, low), high);
        return;
    }
    if (e.act == act_silu) {
#pragma unroll
        for (float& x : v)
            x = __fdividef(x, 1.0F + __expf(-x));
        return;
    }
    const Four done = activated({{v[0], v[1], v[2], v[3]}}, e.act, e.low, e.high, e.alpha);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = done.v[i];
}

} // namespace lathe::cuda::kernels
