#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// Streaming histogram of float32 values in fixed memory (64 KiB), whatever the number of values.
///
/// A bin is 2^k wide; value x is in bin floor(x / 2^k), an integer in [-4096, 4096). k is the least integer (but not
/// under -127) with absmax < 4096 * 2^k, so the larger side uses 2,048 to 4,096 bins. When a larger value
/// comes, k grows and groups of bins are merged: floor(floor(x / 2^k) / 2) = floor(x / 2^(k+1)), and counts are
/// integers, so the result is the same to the bit for any order, batch size or number of threads.
///
/// Exact zeros (both signs) are counted apart, never in a bin: every number format holds them exactly. NaN and
/// infinities are counted apart too and touch nothing else.
class Histogram {
public:
    static constexpr int bins_per_side = 4096;
    static constexpr int minimum_exponent = -127;
    static constexpr int maximum_exponent = 116; // 2^128 / 4096

    /// Count the values. About 1 ns a value or less on one core. Denormals count as what they are.
    void observe(std::span<const float> values);
    /// As if this histogram had observed what `other` observed.
    void merge(const Histogram& other);

    /// All values seen: zeros, values in bins, NaNs and infinities.
    std::uint64_t count() const { return finite_ + nans_ + infinities_; }
    std::uint64_t finite_count() const { return finite_; }
    std::uint64_t zeros() const { return zeros_; }
    std::uint64_t nans() const { return nans_; }
    std::uint64_t infinities() const { return infinities_; }
    /// Extremes of the finite values; 0 when there are none.
    float min() const { return finite_ == 0 ? 0.0F : min_; }
    float max() const { return finite_ == 0 ? 0.0F : max_; }
    float absmax() const;
    /// True when no finite value is negative.
    bool one_sided() const { return min() >= 0.0F; }

    /// k: a bin is 2^k wide. Meaningless while there are no bins in use.
    int exponent() const { return exponent_; }
    double bin_width() const;
    /// Bins in use are first_bin() <= index < end_bin(); both 0 when only zeros were seen.
    int first_bin() const;
    int end_bin() const;
    /// Non-zero finite values x with index * 2^k <= x < (index + 1) * 2^k. Any index is allowed.
    std::uint64_t bin(int index) const;
    /// Mean and population standard deviation of the finite values, taking each bin at its centre.
    double mean() const;
    double standard_deviation() const;

    /// Everything that makes a histogram, for the ranges file. Counts are of bins first_bin..first_bin+size-1.
    struct Parts {
        int exponent = 0;
        int first_bin = 0;
        std::vector<std::uint64_t> counts;
        std::uint64_t zeros = 0;
        std::uint64_t nans = 0;
        std::uint64_t infinities = 0;
        float min = 0.0F;
        float max = 0.0F;
    };
    Parts parts() const;
    /// False (and *this unchanged) if the parts contradict each other: extremes not in the outermost used bins,
    /// k not the one that absmax demands, bins outside [-4096, 4096), sums over 2^63.
    bool assign(const Parts& parts);

    bool operator==(const Histogram& other) const;

private:
    void observe_block(std::span<const float> block, class HistogramScratch& scratch);
    void observe_with_nonfinite(std::span<const float> block, class HistogramScratch& scratch);
    void widen(int exponent);
    static int exponent_for(float absmax);

    static std::size_t slot(int index) {
        const int place = index + bins_per_side;
        return static_cast<std::size_t>(place);
    }
    std::uint64_t& at(int index) { return bins_[slot(index)]; }

    std::vector<std::uint64_t> bins_; // empty until the first non-zero value; then 2 * bins_per_side
    int exponent_ = minimum_exponent;
    std::uint64_t finite_ = 0;
    std::uint64_t zeros_ = 0;
    std::uint64_t nans_ = 0;
    std::uint64_t infinities_ = 0;
    float min_ = 0.0F;
    float max_ = 0.0F;
};

} // namespace lathe
