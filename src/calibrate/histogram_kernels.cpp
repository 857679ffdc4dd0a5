#include "calibrate/histogram_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/multiversion.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
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
std::size_t bin_block_float32_portable(const float* values, std::size_t count, float scale, float width,
                                       std::int32_t offset, std::uint16_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto truncated = static_cast<std::int32_t>(values[i] * scale);
        // Compared with the value, not with the product, which underflows where bins are wide and the value is small.
        const std::int32_t floored = truncated - (static_cast<float>(truncated) * width > values[i] ? 1 : 0);
        out[i] = static_cast<std::uint16_t>(floored + offset);
    }
    return count;
}

#if defined(__x86_64__)
namespace {

/// Leaves zeros out with VPCOMPRESSW: after a ReLU that halves the counting, which is the slower half of the work.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt"))) std::size_t
bin_block_float32_vbmi2(const float* values, std::size_t count, float scale, std::int32_t offset, std::uint16_t* out) {
    const __m512 scales = _mm512_set1_ps(scale);
    const __m512i offsets = _mm512_set1_epi32(offset);
    constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    std::size_t written = 0;
    for (std::size_t i = 0; i < count; i += 16) {
        const std::size_t left = count - i;
        const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
        const __m512 x = _mm512_maskz_loadu_ps(lanes, values + i);
        const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        // Rounding down in the product too: a negative one that underflows must not become zero.
        // (The masked forms also because GCC 12 takes the unmasked ones for uses of an uninitialised value.)
        const __m512i index =
            _mm512_maskz_cvt_roundps_epi32(kept, _mm512_maskz_mul_round_ps(kept, x, scales, down), down);
        const __m256i narrow = _mm512_maskz_cvtepi32_epi16(kept, _mm512_add_epi32(index, offsets));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + written), _mm256_maskz_compress_epi16(kept, narrow));
        written += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(kept)));
    }
    return written;
}

} // namespace
#endif

std::size_t bin_block_float32(const float* values, std::size_t count, float scale, float width, std::int32_t offset,
                              std::uint16_t* out) {
#if defined(__x86_64__)
    static const bool vbmi2 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                              __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0;
    if (vbmi2) return bin_block_float32_vbmi2(values, count, scale, offset, out);
#endif
    return bin_block_float32_portable(values, count, scale, width, offset, out);
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
