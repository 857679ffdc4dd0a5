#include "calibrate/guard.hpp"

#include <array>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "samples.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

/// As MobileNetV1's t18: a ReLU6 output half of zeros, with three channels that always hold the same value.
std::vector<float> spiked_relu6() {
    std::mt19937 random(6);
    std::exponential_distribution<float> others(0.7F);
    std::vector<float> values(60'000, 0.0F);
    constexpr std::array spikes{0.33F, 0.693F, 3.05F};
    for (std::size_t i = 0; i < values.size(); i += 2) {
        const float other = std::min(6.0F, others(random));
        const std::size_t kind = random() % 20;
        values[i] = kind < 9 ? spikes[kind / 3] : other;
    }
    return values;
}

constexpr std::array clipping_methods{Method::entropy, Method::percentile};
constexpr std::array guarded_formats{NumberFormat::uint8(), NumberFormat::int8()};

TEST(Guard, ReplacesARangeThatThrowsTheSignalAway) {
    const Histogram histogram = test::histogram_of(spiked_relu6());
    for (const NumberFormat& format : guarded_formats) {
        const Range textbook = estimate(histogram, Method::entropy, format);
        ASSERT_LT(textbook.high, 3.0F) << "the textbook's formula does not collapse here, so this tests nothing";
        std::optional<Collapse> collapse;
        const Range kept = guarded_range(histogram, Method::entropy, format, {}, &collapse);
        ASSERT_TRUE(collapse);
        EXPECT_EQ(collapse->range, textbook);
        EXPECT_GT(collapse->quality.clipped_fraction, 0.2);
        EXPECT_GT(collapse->better_quality.sqnr_db, collapse->quality.sqnr_db + 20);
        EXPECT_EQ(kept, mse_range(histogram, format, {}));

        EstimateOptions unguarded;
        unguarded.guard = false;
        EXPECT_EQ(guarded_range(histogram, Method::entropy, format, unguarded, &collapse), textbook);
        EXPECT_TRUE(collapse) << "it is told even where it is not mended";
    }
}

TEST(Guard, ReplacesAPercentileThatClipsTheSignal) {
    const Histogram histogram = test::histogram_of(spiked_relu6());
    EstimateOptions options;
    options.percentile = 75.0;
    std::optional<Collapse> collapse;
    const Range kept = guarded_range(histogram, Method::percentile, NumberFormat::uint8(), options, &collapse);
    EXPECT_TRUE(collapse);
    EXPECT_EQ(kept, mse_range(histogram, NumberFormat::uint8(), {}));
}

TEST(Guard, LeavesSoundRangesAlone) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::pair<const char*, std::vector<float>>> samples(5);
    for (int i = 0; i < 60'000; ++i) {
        const float x = normal(random);
        samples[0].second.push_back(x);
        samples[1].second.push_back(std::max(0.0F, x));
        samples[2].second.push_back(x * std::exp(normal(random)));        // heavy tails
        samples[3].second.push_back(std::clamp(x, -2.0F, 1.5F));          // values that pile up at both ends
        samples[4].second.push_back(i == 7 ? 500.0F : std::max(0.0F, x)); // an outlier
    }
    const std::array names{"normal", "ReLU", "heavy", "clamped", "outlier"};
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const Histogram histogram = test::histogram_of(samples[i].second);
        for (const Method method : clipping_methods) {
            for (const NumberFormat& format : guarded_formats) {
                std::optional<Collapse> collapse;
                EXPECT_EQ(guarded_range(histogram, method, format, {}, &collapse), estimate(histogram, method, format))
                    << names[i] << ", " << to_string(method) << (format.symmetric ? ", int8" : ", uint8");
                EXPECT_FALSE(collapse);
            }
        }
    }
}

TEST(Guard, SparesTensorsWithNothingToLose) {
    for (const std::vector<float>& values : {std::vector<float>{}, std::vector<float>{0.0F, 0.0F},
                                             std::vector<float>{3.0F}, std::vector<float>{-1.0F, -1.0F, 1e-30F}}) {
        const Histogram histogram = test::histogram_of(values);
        for (const Method method : clipping_methods) {
            for (const NumberFormat& format : guarded_formats)
                EXPECT_EQ(guarded_range(histogram, method, format, {}), estimate(histogram, method, format));
        }
    }
}

TEST(Guard, IsToldInTheRangesFile) {
    ActivationStatistics statistics;
    statistics.samples = 3;
    statistics.tensors.push_back({"fine", test::histogram_of(test::drawn(5000, 1, [](float x) { return x; }))});
    statistics.tensors.push_back({"spiked", test::histogram_of(spiked_relu6())});
    RangesFile ranges = make_ranges(std::move(statistics), {"m", "d", "", 3}, Method::entropy, {});
    ranges.findings.insert(ranges.findings.begin(), CalibrationFinding{"duplicates", "", "two are the same"});
    const test::TemporaryFolder folder;
    const auto path = folder / "m.ranges";
    const auto saved_and_loaded = [&] {
        EXPECT_TRUE(save_ranges(path, ranges));
        auto loaded = load_ranges(path);
        EXPECT_TRUE(loaded) << loaded.error().describe();
        return loaded ? std::move(*loaded) : RangesFile{};
    };

    RangesFile loaded = saved_and_loaded();
    EXPECT_TRUE(loaded.options.guard);
    EXPECT_FALSE(loaded.tensors[0].fallback);
    EXPECT_TRUE(loaded.tensors[1].fallback);
    EXPECT_EQ(loaded.tensors[1].uint8, mse_range(loaded.tensors[1].histogram, NumberFormat::uint8(), {}));
    ASSERT_EQ(loaded.findings.size(), 2U);
    EXPECT_EQ(loaded.findings[1].name, collapsed_range);
    EXPECT_EQ(loaded.findings[1].tensor, "spiked");
    EXPECT_EQ(loaded.findings[1].severity, FindingSeverity::warning);
    EXPECT_NE(loaded.findings[1].detail.find("--method mse"), std::string::npos) << loaded.findings[1].detail;

    EstimateOptions unguarded;
    unguarded.guard = false;
    reestimate(ranges, Method::entropy, unguarded);
    loaded = saved_and_loaded();
    EXPECT_FALSE(loaded.options.guard);
    EXPECT_FALSE(loaded.tensors[1].fallback);
    EXPECT_EQ(loaded.tensors[1].uint8, estimate(ranges.tensors[1].histogram, Method::entropy, NumberFormat::uint8()));
    ASSERT_EQ(loaded.findings.size(), 2U);
    EXPECT_EQ(loaded.findings[1].severity, FindingSeverity::error);

    reestimate(ranges, Method::mse, {});
    loaded = saved_and_loaded();
    EXPECT_FALSE(loaded.tensors[1].fallback);
    ASSERT_EQ(loaded.findings.size(), 1U);
    EXPECT_EQ(loaded.findings[0].name, "duplicates");
}

} // namespace
} // namespace lathe
