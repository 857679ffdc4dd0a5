#include "calibrate/histogram_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

// The resolvers behind target_clones run before a sanitizer has set itself up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define LATHE_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LATHE_MULTIVERSION
#endif

namespace lathe::kernels {

LATHE_MULTIVERSION
BlockScan scan_block_float32(const float* values, std::size_t count) {
    std::int32_t min_key = 0x7FFFFFFF;
    std::int32_t max_key = -0x7FFFFFFF - 1;
    std::int32_t abs_bits = 0;
    std::int32_t zeros = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::int32_t bits = 0;
        std::memcpy(&bits, values + i, sizeof(bits));
        const std::int32_t magnitude = bits & 0x7FFFFFFF;
        const std::int32_t key = bits ^ ((bits >> 31) & 0x7FFFFFFF);
        min_key = key < min_key ? key : min_key;
        max_key = key > max_key ? key : max_key;
        abs_bits = magnitude > abs_bits ? magnitude : abs_bits;
        zeros += magnitude == 0 ? 1 : 0;
    }
    return {min_key, max_key, static_cast<std::uint32_t>(abs_bits), static_cast<std::uint32_t>(zeros)};
}

LATHE_MULTIVERSION
void bin_block_float32(const float* values, std::size_t count, float scale, float width, std::int32_t offset,
                       std::uint16_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto truncated = static_cast<std::int32_t>(values[i] * scale);
        // Compared with the value, not with the product, which underflows where bins are wide and the value is small.
        const std::int32_t floored = truncated - (static_cast<float>(truncated) * width > values[i] ? 1 : 0);
        out[i] = static_cast<std::uint16_t>(floored + offset);
    }
}

LATHE_MULTIVERSION
void flush_counters_uint16x4(std::uint16_t* counters, std::size_t bins, std::uint64_t* counts) {
    for (std::size_t i = 0; i < bins; ++i) {
        std::uint64_t four = 0;
        std::memcpy(&four, counters + 4 * i, sizeof(four));
        counts[i] += (four & 0xFFFFU) + ((four >> 16) & 0xFFFFU) + ((four >> 32) & 0xFFFFU) + (four >> 48);
    }
    std::memset(counters, 0, bins * 4 * sizeof(std::uint16_t));
}

} // namespace lathe::kernels
