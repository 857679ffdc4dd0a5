#include "calibrate/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "calibrate/histogram_kernels.hpp"
#include "samples.hpp"

namespace lathe {
namespace {

using test::all_samples;
using test::histogram_of;
using test::Samples;

/// The rule of histogram.hpp written out one value at a time in long double.
struct PlainHistogram {
    explicit PlainHistogram(const std::vector<float>& values) {
        long double absmax = 0;
        for (const float value : values) {
            if (std::isfinite(value)) absmax = std::max(absmax, std::fabs(static_cast<long double>(value)));
        }
        exponent = Histogram::minimum_exponent;
        while (absmax >= std::ldexp(4096.0L, exponent))
            ++exponent;
        for (const float value : values) {
            if (std::isnan(value)) {
                ++nans;
            } else if (std::isinf(value)) {
                ++infinities;
            } else {
                least = finite == 0 ? value : std::min(least, value);
                greatest = finite == 0 ? value : std::max(greatest, value);
                ++finite;
                if (value == 0) {
                    ++zeros;
                } else {
                    ++bins[static_cast<int>(std::floor(std::ldexp(static_cast<long double>(value), -exponent)))];
                }
            }
        }
    }
    int exponent = 0;
    std::map<int, std::uint64_t> bins;
    std::uint64_t finite = 0;
    std::uint64_t zeros = 0;
    std::uint64_t nans = 0;
    std::uint64_t infinities = 0;
    float least = 0;
    float greatest = 0;
};

void expect_equals_plain(const Histogram& histogram, const std::vector<float>& values) {
    const PlainHistogram plain(values);
    EXPECT_EQ(histogram.count(), values.size());
    EXPECT_EQ(histogram.finite_count(), plain.finite);
    EXPECT_EQ(histogram.zeros(), plain.zeros);
    EXPECT_EQ(histogram.nans(), plain.nans);
    EXPECT_EQ(histogram.infinities(), plain.infinities);
    EXPECT_EQ(histogram.min(), plain.least);
    EXPECT_EQ(histogram.max(), plain.greatest);
    if (plain.bins.empty()) {
        EXPECT_EQ(histogram.first_bin(), 0);
        EXPECT_EQ(histogram.end_bin(), 0);
        return;
    }
    EXPECT_EQ(histogram.exponent(), plain.exponent);
    for (int i = -Histogram::bins_per_side - 1; i <= Histogram::bins_per_side; ++i) {
        const auto found = plain.bins.find(i);
        ASSERT_EQ(histogram.bin(i), found == plain.bins.end() ? 0 : found->second) << "bin " << i;
        if (histogram.bin(i) > 0) {
            EXPECT_GE(i, histogram.first_bin());
            EXPECT_LT(i, histogram.end_bin());
        }
    }
}

class HistogramOf : public ::testing::TestWithParam<Samples> {};

TEST_P(HistogramOf, EqualsPlainBinning) { expect_equals_plain(histogram_of(GetParam().values), GetParam().values); }

TEST_P(HistogramOf, DoesNotDependOnOrderOrSplit) {
    const std::vector<float>& values = GetParam().values;
    const Histogram whole = histogram_of(values);
    const auto seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int round = 0; round < 5; ++round) {
        std::vector<float> shuffled = values;
        std::shuffle(shuffled.begin(), shuffled.end(), random);
        // Observed in parts by one of several histograms, which are then merged in any order.
        std::vector<Histogram> parts(1 + random() % 4);
        for (std::size_t begin = 0; begin < shuffled.size();) {
            const std::size_t size = std::min<std::size_t>(1 + random() % 20'000, shuffled.size() - begin);
            parts[random() % parts.size()].observe({shuffled.data() + begin, size});
            begin += size;
        }
        std::shuffle(parts.begin(), parts.end(), random);
        Histogram merged;
        for (const Histogram& part : parts)
            merged.merge(part);
        EXPECT_TRUE(merged == whole);
    }
}

TEST_P(HistogramOf, SurvivesItsParts) {
    const Histogram histogram = histogram_of(GetParam().values);
    Histogram again;
    ASSERT_TRUE(again.assign(histogram.parts()));
    EXPECT_TRUE(again == histogram);
}

TEST_P(HistogramOf, LargerSideUsesHalfOfTheBinsAtLeast) {
    const Histogram histogram = histogram_of(GetParam().values);
    const int used = std::max(histogram.end_bin(), -histogram.first_bin());
    if (histogram.absmax() < std::ldexp(4096.0F, Histogram::minimum_exponent)) return;
    EXPECT_GE(used, 2048);
    EXPECT_LE(used, 4096);
}

INSTANTIATE_TEST_SUITE_P(Samples, HistogramOf, ::testing::ValuesIn(all_samples()), [](const auto& info) {
    std::string name = info.param.name;
    std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
    return name;
});

TEST(Histogram, CountsBeyondSixteenBits) {
    std::vector<float> values(1'000'003, 0.5F);
    values.back() = -0.25F;
    const Histogram histogram = histogram_of(values);
    EXPECT_EQ(histogram.bin(histogram.end_bin() - 1), 1'000'002U);
    EXPECT_EQ(histogram.bin(histogram.first_bin()), 1U);
}

TEST(HistogramKernels, AllFormsAgree) {
    for (const auto& samples : all_samples()) {
        std::vector<float> values = samples.values;
        std::erase_if(values, [](float x) { return !std::isfinite(x); });
        const Histogram histogram = histogram_of(values);
        if (histogram.absmax() == 0.0F) continue;
        const float scale = std::ldexp(1.0F, -histogram.exponent());
        const float width = std::ldexp(1.0F, histogram.exponent());
        for (std::size_t size = std::min<std::size_t>(values.size(), 300); size > 0; size -= 1 + size / 8) {
            const auto found = [&](auto kernel) {
                std::vector<std::uint16_t> indices(size + kernels::bin_block_slack);
                indices.resize(kernel(values.data(), size, scale, width, 4096, indices.data()));
                std::erase(indices, 4096); // bin 0: of zeros, which may be left out; small values are checked elsewhere
                return indices;
            };
            EXPECT_EQ(found(kernels::bin_block_float32), found(kernels::bin_block_float32_portable))
                << samples.name << ", " << size;
        }
    }
}

TEST(Histogram, MeanAndDeviation) {
    const Histogram histogram = histogram_of(test::drawn(200'000, 9, [](float x) { return 2.0F + 3.0F * x; }));
    EXPECT_NEAR(histogram.mean(), 2.0, 0.03);
    EXPECT_NEAR(histogram.standard_deviation(), 3.0, 0.03);
}

#if defined(__SSE__)
TEST(Histogram, SeesDenormalsWhereTheThreadFlushesThem) {
    const std::vector<float> values{1e-40F, -1e-40F, 1e-45F, 0.0F};
    const Histogram expected = histogram_of(values);
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040U);
    const Histogram found = histogram_of(values);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    EXPECT_EQ(after & 0x8040U, 0x8040U);
    EXPECT_TRUE(found == expected);
    EXPECT_EQ(found.zeros(), 1U);
}
#endif

TEST(Histogram, RefusesPartsThatContradictThemselves) {
    const Histogram::Parts good = histogram_of({1.0F, -0.5F, 0.0F, 0.25F}).parts();
    struct Case {
        const char* name;
        void (*damage)(Histogram::Parts&);
    };
    const std::vector<Case> cases{
        {"exponent", [](Histogram::Parts& p) { ++p.exponent; }},
        {"first bin", [](Histogram::Parts& p) { --p.first_bin; }},
        {"first bin far off", [](Histogram::Parts& p) { p.first_bin = -2'000'000'000; }},
        {"too few counts", [](Histogram::Parts& p) { p.counts.pop_back(); }},
        {"too many counts", [](Histogram::Parts& p) { p.counts.resize(100'000); }},
        {"no counts", [](Histogram::Parts& p) { p.counts.clear(); }},
        {"minimum not seen", [](Histogram::Parts& p) { p.counts.front() = 0; }},
        {"maximum not seen", [](Histogram::Parts& p) { p.counts.back() = 0; }},
        {"count overflow", [](Histogram::Parts& p) { p.counts.back() = ~std::uint64_t{0}; }},
        {"sum overflow", [](Histogram::Parts& p) { p.counts.assign(p.counts.size(), std::uint64_t{1} << 62); }},
        {"zeros overflow", [](Histogram::Parts& p) { p.zeros = ~std::uint64_t{0}; }},
        {"NaN minimum", [](Histogram::Parts& p) { p.min = std::numeric_limits<float>::quiet_NaN(); }},
        {"infinite maximum", [](Histogram::Parts& p) { p.max = std::numeric_limits<float>::infinity(); }},
        {"extremes swapped", [](Histogram::Parts& p) { std::swap(p.min, p.max); }},
        {"all in no bin", [](Histogram::Parts& p) { p.min = p.max = 0.0F; }},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.name);
        Histogram::Parts parts = good;
        c.damage(parts);
        Histogram histogram = histogram_of({7.0F});
        EXPECT_FALSE(histogram.assign(parts));
        EXPECT_TRUE(histogram == histogram_of({7.0F})) << "a refusal must change nothing";
    }
    Histogram histogram;
    EXPECT_TRUE(histogram.assign(good));
}

} // namespace
} // namespace lathe
