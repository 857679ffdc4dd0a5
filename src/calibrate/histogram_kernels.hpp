#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::kernels {

// The inner loops of Histogram, compiled for AVX-512, AVX2 and the baseline and chosen when the program starts.
// They use no floating-point comparison, so flush-to-zero modes and NaNs do not change their results.

/// What one pass over a block finds.
struct BlockScan {
    std::int32_t min_key;   ///< order key of the least value
    std::int32_t max_key;   ///< order key of the greatest
    std::uint32_t abs_bits; ///< bits of the largest |x|; >= 0x7F800000 if the block holds NaN or infinity
    std::uint32_t zeros;    ///< values equal to zero, either sign
};

/// Maps float bits to integers in the same order (-0 before +0). Its own inverse.
constexpr std::int32_t order_key(std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }

BlockScan scan_block_float32(const float* values, std::size_t count);

/// Room that bin_block_float32 needs in `out` beyond the number of values.
constexpr std::size_t bin_block_slack = 16;

/// Writes floor(value / width) + offset, exactly, for each value in order; zeros may be left out. Returns how many it
/// wrote. `width` is a power of two, `scale` its inverse, and all results fit uint16.
std::size_t bin_block_float32(const float* values, std::size_t count, float scale, float width, std::int32_t offset,
                              std::uint16_t* out);
/// The form that runs where there is no faster one. It leaves nothing out.
std::size_t bin_block_float32_portable(const float* values, std::size_t count, float scale, float width,
                                       std::int32_t offset, std::uint16_t* out);

/// Adds the four interleaved counters of each bin to counts[bin] and sets them to zero.
void flush_counters_uint16x4(std::uint16_t* counters, std::size_t bins, std::uint64_t* counts);

} // namespace lathe::kernels
