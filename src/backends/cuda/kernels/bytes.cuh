#pragma once
// int8 values and the words that hold them, without conversions by the slow unit.

#include <cstdint>

namespace lathe::cuda::kernels {

/// The lowest bytes of four words.
__device__ __forceinline__ std::uint32_t join_bytes(std::uint32_t b0, std::uint32_t b1, std::uint32_t b2,
                                                    std::uint32_t b3) {
    return __byte_perm(__byte_perm(b0, b1, 0x0040), __byte_perm(b2, b3, 0x0040), 0x5410);
}

/// Byte i (0 to 3) of int8 values whose sign bits are flipped, as a float: b + 128 in the low bits of 2^23.
__device__ __forceinline__ float flipped_byte_value(std::uint32_t flipped, int i) {
    return __uint_as_float(__byte_perm(flipped, 0x4B000000U, 0x7440U | static_cast<unsigned>(i))) - 8388736.0F;
}

/// Byte i (0 to 3) of a word of int8 values, as a float.
__device__ __forceinline__ float byte_value(std::uint32_t word, int i) {
    return flipped_byte_value(word ^ 0x80808080U, i);
}

} // namespace lathe::cuda::kernels
