#pragma once
// What all kernels share: conversions, the epilogue, programmatic dependent launch.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backends/cuda/kernels/gelu.cuh"
#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Waits until all earlier kernels of the stream are done and their writes visible. Every thread that touches
/// activations calls it first.
__device__ __forceinline__ void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Lets the next kernel of the stream start its prologue.
__device__ __forceinline__ void pdl_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Launch with the attributes asked for. `cluster_z` > 1: that many CTAs along z form a cluster.
template <class... Params, class... Args>
cudaError_t launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                          bool programmatic, unsigned cluster_z, Args&&... args) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (programmatic) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster_z > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim.x = 1;
        attributes[count].val.clusterDim.y = 1;
        attributes[count++].val.clusterDim.z = cluster_z;
    }
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// Division of numbers below 65,536 by one that the host knows: an instruction in place of some twenty.
struct Divisor {
    std::uint32_t value = 1, inverse = 0; ///< inverse: 2^32 / value, rounded up past it; 0 for 1
    Divisor() = default;
    explicit Divisor(int divisor)
        : value(static_cast<std::uint32_t>(divisor)), inverse(divisor == 1 ? 0 : 0xffffffffU / value + 1) {}
    __device__ __forceinline__ int divide(int number) const {
        return inverse == 0 ? number : static_cast<int>(__umulhi(static_cast<std::uint32_t>(number), inverse));
    }
    __device__ __forceinline__ int remainder(int number) const {
        return number - divide(number) * static_cast<int>(value);
    }
};

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
    const std::int64_t blocks = (count + per_block - 1) / per_block;
    return static_cast<unsigned>(blocks < 1 ? 1 : (blocks > 0x7fffffff ? 0x7fffffff : blocks));
}

template <int Type>
struct Storage;
template <>
struct Storage<type_f32> {
    using type = float;
};
template <>
struct Storage<type_f16> {
    using type = __half;
};
template <>
struct Storage<type_bf16> {
    using type = __nv_bfloat16;
};
template <>
struct Storage<type_s8> {
    using type = std::int8_t;
};

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float to_float(std::int8_t v) { return static_cast<float>(v); }

__device__ __forceinline__ std::int8_t saturate_s8(float v) {
    std::int32_t out;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(out) : "f"(v)); // nearest even, -128..127
    return static_cast<std::int8_t>(out);
}
template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
    return v;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float v) {
    return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
    return __float2bfloat16_rn(v);
}
template <>
__device__ __forceinline__ std::int8_t from_float<std::int8_t>(float v) {
    return saturate_s8(v);
}

/// Two neighbouring numbers of 16 bits: a word.
template <class T>
__device__ __forceinline__ float2 unpack_pair(std::uint32_t raw) {
    if constexpr (std::is_same_v<T, __half>) return __half22float2(*reinterpret_cast<const __half2*>(&raw));
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&raw));
}
template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float x, float y) {
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(x, y);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    }
}

/// Stored number i of an array of run-time type.
__device__ __forceinline__ float load_any(const void* data, std::int32_t type, std::int64_t i) {
    switch (type) {
        case type_f32: return static_cast<const float*>(data)[i];
        case type_f16: return __half2float(static_cast<const __half*>(data)[i]);
        case type_bf16: return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
        case type_s8: return static_cast<float>(static_cast<const std::int8_t*>(data)[i]);
        case type_s32: return static_cast<float>(static_cast<const std::int32_t*>(data)[i]);
        case type_s64: return static_cast<float>(static_cast<const std::int64_t*>(data)[i]);
        default: return static_cast<const std::uint8_t*>(data)[i] != 0 ? 1.0F : 0.0F;
    }
}
__device__ __forceinline__ void store_any(void* data, std::int32_t type, std::int64_t i, float v) {
    switch (type) {
        case type_f32: static_cast<float*>(data)[i] = v; break;
        case type_f16: static_cast<__half*>(data)[i] = __float2half_rn(v); break;
        case type_bf16: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(v); break;
        case type_s8: static_cast<std::int8_t*>(data)[i] = saturate_s8(v); break;
        case type_s32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(v); break;
        case type_s64: static_cast<std::int64_t*>(data)[i] = static_cast<std::int64_t>(v); break;
        default: static_cast<std::uint8_t*>(data)[i] = v != 0 ? 1 : 0; break;
    }
}

/// Activation numbers as lathe::cuda::Activation.
enum Act : std::int32_t {
    act_none,
    act_relu,
    act_clip,
    act_leaky_relu,
    act_gelu_erf,
    act_gelu_tanh,
    act_sigmoid,
    act_silu,
    act_hard_sigmoid,
    act_hard_swish,
    act_tanh
};
static __device__ __noinline__ float activate_rare(float v, std::int32_t act, float high, float alpha) {
    switch (act) {
        case act_leaky_relu: return v >= 0 ? v : v * alpha;
        case act_gelu_erf: return fast_gelu(v);
        case act_gelu_tanh: return fast_gelu_tanh(v);
        case act_sigmoid: return 1.0F / (1.0F + __expf(-v));
        case act_silu: return v / (1.0F + __expf(-v));
        case act_hard_sigmoid: return fminf(fmaxf(alpha * v + high, 0.0F), 1.0F);
        case act_hard_swish: return v * fminf(fmaxf(v * (1.0F / 6.0F) + 0.5F, 0.0F), 1.0F);
        case act_tanh: return tanhf(v);
        default: return v;
    }
}
__device__ __forceinline__ float activate(float v, const EpilogueParams& e) {
    if (e.act == act_none) return v;
    if (e.act == act_relu) return fmaxf(v, 0.0F);
    if (e.act == act_clip) return fminf(fmaxf(v, e.low), e.high);
    return activate_rare(v, e.act, e.high, e.alpha);
}
/// The epilogue but for the rounding; `residual` is the stored number.
__device__ __forceinline__ float finish(float acc, float scale, float bias, float residual, const EpilogueParams& e) {
    const float before = e.residual_last != 0 ? 0.0F : residual * e.residual_scale;
    const float behind = e.residual_last != 0 ? residual * e.residual_scale : 0.0F;
    return (activate(fmaf(acc, scale, bias) + before, e) + behind) * e.output_scale_inverse;
}
/// Activations that are quick enough to stand behind all sums; false: it is another one, and nothing was done.
template <int Count>
__device__ __forceinline__ bool activate_quickly(float (&v)[Count], const EpilogueParams& e) {
    if (e.act == act_none) return true;
    if (e.act <= act_clip) {
        const float low = e.act == act_clip ? e.low : 0.0F, high = e.act == act_clip ? e.high : INFINITY;
#pragma unroll
        for (float& x : v)
            x = fminf(fmaxf(x, low), high);
    } else if (e.act == act_silu) {
#pragma unroll
        for (float& x : v)
            x = __fdividef(x, 1.0F + __expf(-x));
    } else if (e.act == act_hard_swish) {
#pragma unroll
        for (float& x : v)
            x *= __saturatef(fmaf(x, 1.0F / 6.0F, 0.5F));
    } else if (e.act == act_leaky_relu) {
#pragma unroll
        for (float& x : v)
            x = x >= 0 ? x : x * e.alpha;
    } else if (e.act == act_gelu_erf) {
#pragma unroll
        for (float& x : v)
            x = fast_gelu(x);
    } else if (e.act == act_gelu_tanh) {
#pragma unroll
        for (float& x : v)
            x = fast_gelu_tanh(x);
    } else {
        return false;
    }
    return true;
}

/// 16 bytes of T as floats and back.
template <class T>
struct Vec16 {
    static constexpr int count = 16 / sizeof(T);
};
template <class T>
__device__ __forceinline__ void unpack(const uint4& raw, float* out) {
    const T* values = reinterpret_cast<const T*>(&raw);
#pragma unroll
    for (int i = 0; i < Vec16<T>::count; ++i)
        out[i] = to_float(values[i]);
}
template <class T>
__device__ __forceinline__ uint4 pack(const float* in) {
    uint4 raw;
    T* values = reinterpret_cast<T*>(&raw);
#pragma unroll
    for (int i = 0; i < Vec16<T>::count; ++i)
        values[i] = from_float<T>(in[i]);
    return raw;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffU, v, offset);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, offset));
    return v;
}

} // namespace lathe::cuda::kernels
