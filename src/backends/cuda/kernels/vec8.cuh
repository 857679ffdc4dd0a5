#pragma once
// Eight neighbouring elements of a run-time type as floats, by 16-byte accesses (two of them for 4-byte types, 8 bytes
// for one-byte types). `i` is a multiple of 8 and the array starts on 16 bytes.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {

__device__ __forceinline__ void load8(const void* data, std::int32_t type, std::int64_t i, float (&v)[8]) {
    switch (type) {
        case type_f32: {
            const float4* p = reinterpret_cast<const float4*>(static_cast<const float*>(data) + i);
            const float4 a = p[0], b = p[1];
            v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
            break;
        }
        case type_f16: unpack<__half>(*reinterpret_cast<const uint4*>(static_cast<const __half*>(data) + i), v); break;
        case type_bf16:
            unpack<__nv_bfloat16>(*reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(data) + i), v);
            break;
        case type_s8: {
            const uint2 raw = *reinterpret_cast<const uint2*>(static_cast<const std::int8_t*>(data) + i);
            const std::int8_t* b = reinterpret_cast<const std::int8_t*>(&raw);
#pragma unroll
            for (int k = 0; k < 8; ++k)
                v[k] = static_cast<float>(b[k]);
            break;
        }
        default:
#pragma unroll
            for (int k = 0; k < 8; ++k)
                v[k] = load_any(data, type, i + k);
    }
}

__device__ __forceinline__ void store8(void* data, std::int32_t type, std::int64_t i, const float (&v)[8]) {
    switch (type) {
        case type_f32: {
            float4* p = reinterpret_cast<float4*>(static_cast<float*>(data) + i);
            p[0] = make_float4(v[0], v[1], v[2], v[3]);
            p[1] = make_float4(v[4], v[5], v[6], v[7]);
            break;
        }
        case type_f16: *reinterpret_cast<uint4*>(static_cast<__half*>(data) + i) = pack<__half>(v); break;
        case type_bf16:
            *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(data) + i) = pack<__nv_bfloat16>(v);
            break;
        case type_s8: {
            uint2 raw;
            std::int8_t* b = reinterpret_cast<std::int8_t*>(&raw);
#pragma unroll
            for (int k = 0; k < 8; ++k)
                b[k] = saturate_s8(v[k]);
            *reinterpret_cast<uint2*>(static_cast<std::int8_t*>(data) + i) = raw;
            break;
        }
        default:
#pragma unroll
            for (int k = 0; k < 8; ++k)
                store_any(data, type, i + k, v[k]);
    }
}

} // namespace lathe::cuda::kernels
