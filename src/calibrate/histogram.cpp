#include "calibrate/histogram.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "calibrate/histogram_kernels.hpp"

namespace lathe {

namespace {

constexpr std::size_t block_size = 4096; // 16 KiB of values and 8 KiB of indices: both passes stay in the L1 cache
constexpr std::size_t sides = 2 * static_cast<std::size_t>(Histogram::bins_per_side);
constexpr std::uint32_t infinity_bits = 0x7F800000U;

/// Inference libraries switch flush-to-zero on in threads they touch; a negative denormal would then land in bin 0.
class ExactDenormals {
public:
#if defined(__SSE__)
    ExactDenormals() : saved_(_mm_getcsr()) {
        constexpr unsigned flush_to_zero = 0x8000U;
        constexpr unsigned denormals_are_zero = 0x0040U;
        if ((saved_ & (flush_to_zero | denormals_are_zero)) != 0) {
            _mm_setcsr(saved_ & ~(flush_to_zero | denormals_are_zero));
        }
    }
    ~ExactDenormals() { _mm_setcsr(saved_); }
#else
    ExactDenormals() = default;
    ~ExactDenormals() = default;
#endif
    ExactDenormals(const ExactDenormals&) = delete;
    ExactDenormals& operator=(const ExactDenormals&) = delete;

#if defined(__SSE__)
private:
    unsigned saved_;
#endif
};

float float_from_key(std::int32_t key) { return std::bit_cast<float>(kernels::order_key(key)) + 0.0F; }

/// bin index of a finite value, in double so that it is exact for every float.
int bin_of(float value, int exponent) {
    return static_cast<int>(std::floor(std::ldexp(static_cast<double>(value), -exponent)));
}

} // namespace

/// Four interleaved 16-bit counters a bin: neighbours go to different counters, so that runs of one value (ReLU's
/// zeros) do not wait for their own stores, and the counters of one side fit the L1 cache.
class HistogramScratch {
public:
    static constexpr std::size_t limit = 4 * std::size_t{65535}; // values until a counter could overflow

    HistogramScratch() : counters_(std::make_unique<std::uint16_t[]>(sides * 4)) {}

    bool fits(std::size_t more) const { return pending_ + more <= limit; }

    void add(std::span<const float> block, int exponent, std::uint32_t zeros, int low, int high) {
        const std::size_t written =
            kernels::bin_block_float32(block.data(), block.size(), std::ldexp(1.0F, -exponent),
                                       std::ldexp(1.0F, exponent), Histogram::bins_per_side, indices_.data());
        std::uint16_t* counters = counters_.get();
        std::size_t i = 0;
        for (; i + 4 <= written; i += 4) {
            std::uint64_t four = 0; // one load for four indices
            std::memcpy(&four, indices_.data() + i, sizeof(four));
            ++counters[4 * (four & 0xFFFFU)];
            ++counters[4 * ((four >> 16) & 0xFFFFU) + 1];
            ++counters[4 * ((four >> 32) & 0xFFFFU) + 2];
            ++counters[4 * (four >> 48) + 3];
        }
        for (; i < written; ++i)
            ++counters[4 * std::size_t{indices_[i]} + (i & 3U)];
        // One block's tail adds one more to the low lanes: count whole groups of four.
        pending_ += (block.size() + 3) / 4 * 4;
        zeros_ += written - (block.size() - zeros); // those that the kernel did not leave out
        low_ = std::min(low_, low);
        high_ = std::max(high_, high);
    }

    void flush(std::vector<std::uint64_t>& bins) {
        if (pending_ == 0) return;
        const int lowest = low_ + Histogram::bins_per_side;
        const int touched = high_ - low_ + 1;
        const auto first = static_cast<std::size_t>(lowest);
        const auto used = static_cast<std::size_t>(touched);
        kernels::flush_counters_uint16x4(counters_.get() + 4 * first, used, bins.data() + first);
        bins[static_cast<std::size_t>(Histogram::bins_per_side)] -= zeros_;
        pending_ = 0;
        zeros_ = 0;
        low_ = 0;
        high_ = 0;
    }

private:
    std::unique_ptr<std::uint16_t[]> counters_;
    std::array<std::uint16_t, block_size + kernels::bin_block_slack> indices_; // written before it is read
    std::size_t pending_ = 0;
    std::uint64_t zeros_ = 0;
    int low_ = 0; // bins touched since the last flush; bin 0 always among them, for the zeros
    int high_ = 0;
};

int Histogram::exponent_for(float absmax) {
    // absmax < 2^(ilogb + 1) = 4096 * 2^k.
    const int exponent = std::ilogb(absmax) + 1 - std::countr_zero(static_cast<unsigned>(bins_per_side));
    return std::max(exponent, minimum_exponent);
}

void Histogram::observe(std::span<const float> values) {
    if (values.empty()) return;
    const ExactDenormals guard;
    HistogramScratch scratch;
    for (std::size_t i = 0; i < values.size(); i += block_size) {
        observe_block(values.subspan(i, std::min(block_size, values.size() - i)), scratch);
    }
    if (!bins_.empty()) scratch.flush(bins_);
}

void Histogram::observe_block(std::span<const float> block, HistogramScratch& scratch) {
    const kernels::BlockScan scan = kernels::scan_block_float32(block.data(), block.size());
    if (scan.abs_bits >= infinity_bits) {
        observe_with_nonfinite(block, scratch);
        return;
    }
    const float low = float_from_key(scan.min_key);
    const float high = float_from_key(scan.max_key);
    min_ = finite_ == 0 ? low : std::min(min_, low);
    max_ = finite_ == 0 ? high : std::max(max_, high);
    finite_ += block.size();
    zeros_ += scan.zeros;
    if (scan.abs_bits == 0) return;

    const int needed = exponent_for(std::bit_cast<float>(scan.abs_bits));
    if (bins_.empty()) {
        bins_.assign(sides, 0);
        exponent_ = needed;
    } else if (needed > exponent_) {
        scratch.flush(bins_);
        widen(needed);
    }
    if (!scratch.fits(block.size())) scratch.flush(bins_);
    scratch.add(block, exponent_, scan.zeros, std::min(0, bin_of(low, exponent_)),
                std::max(0, bin_of(high, exponent_)));
}

void Histogram::observe_with_nonfinite(std::span<const float> block, HistogramScratch& scratch) {
    std::array<float, block_size> finite{};
    std::size_t kept = 0;
    for (const float value : block) {
        if (std::isnan(value)) {
            ++nans_;
        } else if (std::isinf(value)) {
            ++infinities_;
        } else {
            finite[kept++] = value;
        }
    }
    if (kept > 0) observe_block(std::span<const float>(finite.data(), kept), scratch);
}

void Histogram::widen(int exponent) {
    const int shift = std::min(exponent - exponent_, 31);
    exponent_ = exponent;
    const auto move = [&](int from) {
        const int to = from >> shift; // arithmetic: rounds towards minus infinity, as floor does
        if (to == from) return;
        at(to) += at(from);
        at(from) = 0;
    };
    for (int i = 0; i < bins_per_side; ++i)
        move(i);
    for (int i = -1; i >= -bins_per_side; --i)
        move(i);
}

void Histogram::merge(const Histogram& other) {
    if (other.finite_ > 0) {
        min_ = finite_ == 0 ? other.min_ : std::min(min_, other.min_);
        max_ = finite_ == 0 ? other.max_ : std::max(max_, other.max_);
    }
    finite_ += other.finite_;
    zeros_ += other.zeros_;
    nans_ += other.nans_;
    infinities_ += other.infinities_;
    if (other.bins_.empty()) return;
    if (bins_.empty()) {
        bins_ = other.bins_;
        exponent_ = other.exponent_;
        return;
    }
    if (other.exponent_ > exponent_) widen(other.exponent_);
    const int shift = std::min(exponent_ - other.exponent_, 31);
    for (int i = -bins_per_side; i < bins_per_side; ++i)
        at(i >> shift) += other.bin(i);
}

float Histogram::absmax() const { return std::max(std::fabs(min()), std::fabs(max())); }

double Histogram::bin_width() const { return std::ldexp(1.0, exponent_); }

int Histogram::first_bin() const { return bins_.empty() ? 0 : std::min(0, bin_of(min_, exponent_)); }

int Histogram::end_bin() const { return bins_.empty() || max_ <= 0.0F ? 0 : bin_of(max_, exponent_) + 1; }

std::uint64_t Histogram::bin(int index) const {
    if (bins_.empty() || index < -bins_per_side || index >= bins_per_side) return 0;
    return bins_[slot(index)];
}

double Histogram::mean() const {
    if (finite_ == 0) return 0.0;
    double sum = 0.0;
    for (int i = first_bin(); i < end_bin(); ++i)
        sum += static_cast<double>(bin(i)) * (i + 0.5);
    return sum * bin_width() / static_cast<double>(finite_);
}

double Histogram::standard_deviation() const {
    if (finite_ == 0) return 0.0;
    const double centre = mean();
    double sum = static_cast<double>(zeros_) * centre * centre;
    for (int i = first_bin(); i < end_bin(); ++i) {
        const double distance = (i + 0.5) * bin_width() - centre;
        sum += static_cast<double>(bin(i)) * distance * distance;
    }
    return std::sqrt(sum / static_cast<double>(finite_));
}

Histogram::Parts Histogram::parts() const {
    Parts parts;
    parts.exponent = bins_.empty() ? 0 : exponent_;
    parts.first_bin = first_bin();
    for (int i = first_bin(); i < end_bin(); ++i)
        parts.counts.push_back(bin(i));
    parts.zeros = zeros_;
    parts.nans = nans_;
    parts.infinities = infinities_;
    parts.min = min();
    parts.max = max();
    return parts;
}

bool Histogram::assign(const Parts& parts) {
    constexpr std::uint64_t most = std::uint64_t{1} << 62; // no sum below can wrap
    if (parts.counts.size() > sides || parts.zeros > most || parts.nans > most || parts.infinities > most) return false;
    if (!std::isfinite(parts.min) || !std::isfinite(parts.max) || parts.min > parts.max) return false;
    Histogram made;
    made.zeros_ = parts.zeros;
    made.nans_ = parts.nans;
    made.infinities_ = parts.infinities;
    std::uint64_t total = 0;
    for (const std::uint64_t counted : parts.counts) {
        if (counted > most || total > most) return false;
        total += counted;
    }
    if (total > most) return false;
    made.finite_ = total + parts.zeros;
    made.min_ = parts.min;
    made.max_ = parts.max;
    const float absmax = std::max(std::fabs(parts.min), std::fabs(parts.max));
    if (total == 0) {
        if (absmax != 0.0F || !parts.counts.empty() || parts.first_bin != 0) return false;
    } else {
        if (absmax == 0.0F || parts.exponent != exponent_for(absmax)) return false;
        if (parts.first_bin < -bins_per_side || parts.first_bin > bins_per_side) return false;
        made.exponent_ = parts.exponent;
        made.bins_.assign(sides, 0);
        if (parts.first_bin != made.first_bin()) return false;
        if (parts.first_bin + static_cast<int>(parts.counts.size()) != made.end_bin()) return false;
        for (std::size_t i = 0; i < parts.counts.size(); ++i)
            made.at(parts.first_bin + static_cast<int>(i)) = parts.counts[i];
        // The extremes are values that were seen, so their bins hold something (zero is held apart).
        const auto seen = [&](float value) {
            return value == 0.0F ? parts.zeros > 0 : made.bin(bin_of(value, made.exponent_)) > 0;
        };
        if (!seen(parts.min) || !seen(parts.max)) return false;
        if (parts.zeros > 0 && (parts.min > 0.0F || parts.max < 0.0F)) return false;
    }
    *this = std::move(made);
    return true;
}

bool Histogram::operator==(const Histogram& other) const {
    const bool same_bins =
        bins_.empty() || other.bins_.empty() ? bins_.empty() == other.bins_.empty() : exponent_ == other.exponent_;
    return same_bins && bins_ == other.bins_ && finite_ == other.finite_ && zeros_ == other.zeros_ &&
           nans_ == other.nans_ && infinities_ == other.infinities_ && min() == other.min() && max() == other.max();
}

} // namespace lathe
