#pragma once
// Numbers of every type that a plan stores, for kernels that move, convert and compute whole numbers. All others know
// the types of launch.hpp alone, in which networks are computed.

#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {

/// Behind type_boolean, as lathe::cuda::ElementType numbers them.
enum StoredType : std::int32_t { type_u8 = type_boolean + 1, type_s16, type_u16, type_u32, type_u64, type_f64 };

__host__ __device__ inline std::int64_t size_of(std::int32_t type) {
    switch (type) {
        case type_s64:
        case type_u64:
        case type_f64: return 8;
        case type_f32:
        case type_s32:
        case type_u32: return 4;
        case type_f16:
        case type_bf16:
        case type_s16:
        case type_u16: return 2;
        default: return 1;
    }
}
/// Integers without a scale; int8 and truth values are none.
__host__ __device__ inline bool is_whole(std::int32_t type) {
    return type == type_s32 || type == type_s64 || (type >= type_u8 && type <= type_u64);
}

/// One number from one place to another, as it is stored.
__device__ __forceinline__ void move_number(void* to, std::int64_t at, const void* from, std::int64_t i,
                                            std::int32_t type) {
    switch (size_of(type)) {
        case 8: static_cast<std::int64_t*>(to)[at] = static_cast<const std::int64_t*>(from)[i]; break;
        case 4: static_cast<std::int32_t*>(to)[at] = static_cast<const std::int32_t*>(from)[i]; break;
        case 2: static_cast<std::int16_t*>(to)[at] = static_cast<const std::int16_t*>(from)[i]; break;
        default: static_cast<std::int8_t*>(to)[at] = static_cast<const std::int8_t*>(from)[i]; break;
    }
}

/// A whole number in 64 bits of two's complement; floats are cut off behind the point.
__device__ __forceinline__ std::int64_t load_whole(const void* data, std::int32_t type, std::int64_t i) {
    switch (type) {
        case type_s64:
        case type_u64: return static_cast<const std::int64_t*>(data)[i];
        case type_s32: return static_cast<const std::int32_t*>(data)[i];
        case type_u32: return static_cast<const std::uint32_t*>(data)[i];
        case type_s16: return static_cast<const std::int16_t*>(data)[i];
        case type_u16: return static_cast<const std::uint16_t*>(data)[i];
        case type_s8: return static_cast<const std::int8_t*>(data)[i];
        case type_u8: return static_cast<const std::uint8_t*>(data)[i];
        case type_f64: return static_cast<std::int64_t>(static_cast<const double*>(data)[i]);
        default: return static_cast<std::int64_t>(load_any(data, type, i));
    }
}
/// Its low bits: what does not fit wraps around, int8 too.
__device__ __forceinline__ void store_whole(void* data, std::int32_t type, std::int64_t i, std::int64_t v) {
    switch (type) {
        case type_s64:
        case type_u64: static_cast<std::int64_t*>(data)[i] = v; break;
        case type_s32:
        case type_u32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(v); break;
        case type_s16:
        case type_u16: static_cast<std::int16_t*>(data)[i] = static_cast<std::int16_t>(v); break;
        case type_s8:
        case type_u8: static_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(v); break;
        case type_f64: static_cast<double*>(data)[i] = static_cast<double>(v); break;
        default: store_any(data, type, i, static_cast<float>(v)); break;
    }
}

/// Exact for all but integers of more than 53 bits.
__device__ __forceinline__ double load_number(const void* data, std::int32_t type, std::int64_t i) {
    if (type == type_f64) return static_cast<const double*>(data)[i];
    if (type == type_u64) return static_cast<double>(static_cast<const std::uint64_t*>(data)[i]);
    if (is_whole(type)) return static_cast<double>(load_whole(data, type, i));
    return load_any(data, type, i);
}
__device__ __forceinline__ void store_number(void* data, std::int32_t type, std::int64_t i, double v) {
    if (type == type_f64)
        static_cast<double*>(data)[i] = v;
    else if (type == type_u64)
        static_cast<std::uint64_t*>(data)[i] =
            v < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(v)) : static_cast<std::uint64_t>(v);
    else if (is_whole(type))
        store_whole(data, type, i, static_cast<std::int64_t>(v));
    else
        store_any(data, type, i, static_cast<float>(v));
}

/// As load_any and store_any, of all types.
__device__ __forceinline__ float load_stored(const void* data, std::int32_t type, std::int64_t i) {
    return type > type_boolean ? static_cast<float>(load_number(data, type, i)) : load_any(data, type, i);
}
__device__ __forceinline__ void store_stored(void* data, std::int32_t type, std::int64_t i, float v) {
    if (type > type_boolean)
        store_number(data, type, i, v);
    else
        store_any(data, type, i, v);
}

} // namespace lathe::cuda::kernels
