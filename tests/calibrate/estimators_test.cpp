#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "calibrate/estimate.hpp"
#include "calibrate/quantization_error.hpp"
#include "reference.hpp"
#include "samples.hpp"
#include "support/json.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using test::all_samples;
using test::Bin;
using test::histogram_of;

struct NamedHistogram {
    std::string name;
    Histogram histogram;
};

/// Tensors of MobileNetV1 over photographs; record_histograms.py binned them with NumPy.
std::vector<NamedHistogram> recorded() {
    std::vector<NamedHistogram> tensors;
    const auto json = read_json_file(test::source_path("tests/calibrate/data/mobilenet_v1.json"));
    EXPECT_TRUE(json) << (json ? "" : json.error().describe());
    if (!json) return tensors;
    for (const Json& tensor : *json) {
        Histogram::Parts parts;
        parts.exponent = tensor["exponent"];
        parts.first_bin = tensor["first"];
        parts.zeros = tensor["zeros"];
        parts.min = tensor["min"];
        parts.max = tensor["max"];
        parts.counts = tensor["counts"].get<std::vector<std::uint64_t>>();
        NamedHistogram named{tensor["name"], {}};
        EXPECT_TRUE(named.histogram.assign(parts)) << named.name;
        tensors.push_back(named);
    }
    return tensors;
}

std::vector<NamedHistogram> all_histograms() {
    std::vector<NamedHistogram> histograms = recorded();
    for (const auto& samples : all_samples())
        histograms.push_back({samples.name, histogram_of(samples.values)});
    return histograms;
}

const std::vector<NumberFormat> formats{NumberFormat::uint8(), NumberFormat::int8(), {false, 16}, {true, 15}};

double threshold(const Range& range) {
    return std::max(-static_cast<double>(range.low), static_cast<double>(range.high));
}

bool one_dimensional(const Histogram& histogram, const NumberFormat& format) {
    return format.symmetric || histogram.min() >= 0 || histogram.max() <= 0;
}

TEST(Recorded, AreThere) { EXPECT_GE(recorded().size(), 8U); }

TEST(Estimators, KeepTheirPromisesOnEverything) {
    for (const auto& [name, histogram] : all_histograms()) {
        for (const Estimator& estimator : estimators()) {
            for (const NumberFormat& format : formats) {
                SCOPED_TRACE(name + ", " + estimator.name + (format.symmetric ? ", symmetric " : ", asymmetric ") +
                             std::to_string(format.levels));
                const Range range = estimate(histogram, estimator.method, format);
                EXPECT_TRUE(std::isfinite(range.low) && std::isfinite(range.high));
                EXPECT_LE(range.low, 0.0F);
                EXPECT_GE(range.high, 0.0F);
                EXPECT_EQ(range.low == 0.0F && range.high == 0.0F, histogram.absmax() == 0.0F);
                if (format.symmetric) {
                    EXPECT_EQ(range.low, -range.high);
                    EXPECT_LE(range.high, histogram.absmax());
                } else {
                    const double slack = (static_cast<double>(range.high) - static_cast<double>(range.low)) /
                                         (format.levels - 1) * 0.5001;
                    EXPECT_GE(range.low, std::min(0.0, static_cast<double>(histogram.min())) - slack);
                    EXPECT_LE(range.high, std::max(0.0, static_cast<double>(histogram.max())) + slack);
                }
            }
        }
    }
}

TEST(Minmax, IsExact) {
    const Histogram histogram = histogram_of({-1.5F, 0.25F, 2.75F});
    EXPECT_EQ(estimate(histogram, Method::minmax, NumberFormat::uint8()), (Range{-1.5F, 2.75F}));
    EXPECT_EQ(estimate(histogram, Method::minmax, NumberFormat::int8()), (Range{-2.75F, 2.75F}));
    EXPECT_EQ(estimate(histogram_of({3.0F, 4.0F}), Method::minmax, NumberFormat::uint8()), (Range{0.0F, 4.0F}));
    EXPECT_EQ(estimate(histogram_of({-3.0F, -4.0F}), Method::minmax, NumberFormat::uint8()), (Range{-4.0F, 0.0F}));
}

TEST(Percentile, EqualsSortedValuesToABin) {
    for (const auto& [name, values] : all_samples()) {
        if (values.size() < 10'000) continue;
        const Histogram histogram = histogram_of(values);
        const double bin = histogram.bin_width();
        for (const double percentile : {90.0, 99.0, 99.9, 99.99, 100.0}) {
            SCOPED_TRACE(name + " at " + std::to_string(percentile));
            std::vector<double> magnitudes;
            std::vector<double> sorted(values.begin(), values.end());
            for (const double value : sorted)
                magnitudes.push_back(std::fabs(value));
            std::sort(sorted.begin(), sorted.end());
            std::sort(magnitudes.begin(), magnitudes.end());
            const auto at = [](const std::vector<double>& list, double part) {
                const double rank = std::ceil(part * static_cast<double>(list.size())) - 1;
                return list[static_cast<std::size_t>(std::clamp(rank, 0.0, static_cast<double>(list.size() - 1)))];
            };
            if (at(magnitudes, percentile / 100) == 0.0) continue; // the documented exception, tested below
            const Range symmetric = estimate(histogram, Method::percentile, NumberFormat::int8(), {percentile});
            EXPECT_NEAR(symmetric.high, at(magnitudes, percentile / 100), 1.01 * bin);

            const Range range = estimate(histogram, Method::percentile, NumberFormat::uint8(), {percentile});
            const double beyond = 1 - percentile / 100;
            if (one_dimensional(histogram, NumberFormat::uint8())) {
                EXPECT_NEAR(threshold(range), at(magnitudes, percentile / 100), 1.01 * bin);
            } else {
                // Between two samples that lie far apart any threshold is right: allow up to the next ones.
                EXPECT_GE(range.high, at(sorted, 1 - beyond / 2 - 1e-4) - 1.01 * bin);
                EXPECT_LE(range.high, at(sorted, 1 - beyond / 2 + 1e-4) + 1.01 * bin);
                EXPECT_GE(range.low, at(sorted, beyond / 2 - 1e-4) - 1.01 * bin);
                EXPECT_LE(range.low, at(sorted, beyond / 2 + 1e-4) + 1.01 * bin);
            }
        }
    }
}

TEST(Percentile, DoesNotEraseASparseTensor) {
    std::vector<float> values(1'000'000, 0.0F);
    values[5] = 3.0F;
    EXPECT_EQ(estimate(histogram_of(values), Method::percentile, NumberFormat::uint8()), (Range{0.0F, 3.0F}));
}

TEST(Entropy, EqualsTheWrittenOutRule) {
    for (const auto& [name, histogram] : all_histograms()) {
        for (const NumberFormat& format : {NumberFormat::int8(), NumberFormat::uint8()}) {
            SCOPED_TRACE(name + (format.symmetric ? " int8" : " uint8"));
            const std::vector<Bin> bins = test::plain_bins(histogram, true);
            const Range range = estimate(histogram, Method::entropy, format);
            if (bins.empty()) {
                EXPECT_EQ(range, Range{});
                continue;
            }
            const std::size_t levels = !format.symmetric && one_dimensional(histogram, format) ? 256 : 128;
            std::size_t best = bins.size();
            double least = std::numeric_limits<double>::infinity();
            for (std::size_t cut = levels; cut <= bins.size(); ++cut) {
                const double divergence = test::plain_divergence(bins, cut, levels);
                // Among cuts that are equal but for rounding the smallest wins.
                if (divergence < least - 1e-12) {
                    least = divergence;
                    best = cut;
                }
            }
            const auto bound = best == bins.size()
                                   ? histogram.absmax()
                                   : static_cast<float>(static_cast<double>(best) * histogram.bin_width());
            if (format.symmetric) {
                EXPECT_EQ(range, (Range{-bound, bound}));
            } else {
                EXPECT_EQ(range.high, std::max(0.0F, std::min(histogram.max(), bound)));
                EXPECT_EQ(range.low, std::min(0.0F, std::max(histogram.min(), -bound)));
            }
        }
    }
}

TEST(QuantizationError, EqualsTheSplitIntegral) {
    for (const auto& [name, histogram] : all_histograms()) {
        if (histogram.absmax() == 0.0F) continue;
        for (const bool magnitudes : {true, false}) {
            const std::vector<Bin> bins = test::plain_bins(histogram, magnitudes);
            const QuantizationError error =
                magnitudes ? QuantizationError::of_magnitudes(histogram) : QuantizationError(histogram);
            for (const double part : {0.05, 0.3, 0.77, 1.0}) {
                SCOPED_TRACE(name + (magnitudes ? " magnitudes " : " values ") + std::to_string(part));
                const double scale = part * static_cast<double>(histogram.absmax()) / 127;
                const int lowest = magnitudes ? 0 : -100;
                const double expected = test::plain_error(bins, scale, lowest, 127);
                // Denormals: below the square root of the smallest double there is nothing to compare.
                EXPECT_NEAR(error({scale, lowest, 127}), expected, 1e-6 * expected + 1e-9 * error.power());
            }
        }
    }
}

TEST(QuantizationError, PredictsTheErrorOnTheValuesThemselves) {
    const auto values = test::drawn(200'000, 11, [](float x) { return x; });
    const Histogram histogram = histogram_of(values);
    for (const float bound : {1.0F, 2.5F, 4.0F}) {
        const UniformGrid grid = grid_of({-bound, bound}, NumberFormat::int8());
        double sum = 0;
        for (const float value : values) {
            const double code = std::clamp(std::nearbyint(static_cast<double>(value) / grid.scale), -127.0, 127.0);
            sum += std::pow(static_cast<double>(value) - code * grid.scale, 2);
        }
        EXPECT_NEAR(QuantizationError(histogram)(grid) / sum, 1.0, 0.01) << bound;
    }
}

TEST(Mse, FindsTheLeastOverAllCuts) {
    for (const auto& [name, histogram] : all_histograms()) {
        if (histogram.absmax() == 0.0F) continue;
        for (const NumberFormat& format : {NumberFormat::int8(), NumberFormat::uint8()}) {
            if (!one_dimensional(histogram, format)) continue;
            SCOPED_TRACE(name + (format.symmetric ? " int8" : " uint8"));
            const std::vector<Bin> bins = test::plain_bins(histogram, true);
            const int steps = format.symmetric ? 127 : 255;
            double least = std::numeric_limits<double>::infinity();
            const int stride = bins.size() > 64 ? 7 : 1; // every cut would take minutes
            for (int cut = static_cast<int>(bins.size()); cut > 0; cut -= stride) {
                const double bound = std::min(cut * histogram.bin_width(), static_cast<double>(histogram.absmax()));
                least = std::min(least, test::plain_error(bins, bound / steps, 0, steps));
            }
            const Range range = estimate(histogram, Method::mse, format);
            const double found = test::plain_error(bins, threshold(range) / steps, 0, steps);
            EXPECT_LE(found, least * 1.002 + 1e-12 * QuantizationError(histogram).power());
        }
    }
}

TEST(Mse, FindsTheLeastOverPairs) {
    for (const auto& [name, histogram] : all_histograms()) {
        const NumberFormat format = NumberFormat::uint8();
        if (histogram.absmax() == 0.0F || one_dimensional(histogram, format)) continue;
        SCOPED_TRACE(name);
        const std::vector<Bin> bins = test::plain_bins(histogram, false);
        double least = std::numeric_limits<double>::infinity();
        constexpr int divisions = 24;
        for (int low = 0; low <= divisions; ++low) {
            for (int high = 0; high <= divisions; ++high) {
                const double bottom = static_cast<double>(histogram.min()) * low / divisions;
                const double top = static_cast<double>(histogram.max()) * high / divisions;
                if (top <= bottom) continue;
                const double scale = (top - bottom) / 255;
                const int zero_point = static_cast<int>(std::lround(-bottom / scale));
                least = std::min(least, test::plain_error(bins, scale, -zero_point, 255 - zero_point));
            }
        }
        const Range range = estimate(histogram, Method::mse, format);
        const double scale = (static_cast<double>(range.high) - static_cast<double>(range.low)) / 255;
        const int zero_point = static_cast<int>(std::lround(-static_cast<double>(range.low) / scale));
        const double found = test::plain_error(bins, scale, -zero_point, 255 - zero_point);
        EXPECT_LE(found, least * 1.002 + 1e-12 * QuantizationError(histogram).power());
    }
}

TEST(Mse, IsNoWorseThanTheOthers) {
    for (const auto& [name, histogram] : all_histograms()) {
        if (histogram.absmax() == 0.0F) continue;
        for (const NumberFormat& format : {NumberFormat::int8(), NumberFormat::uint8()}) {
            const auto sqnr = [&, &histogram = histogram](Method method) {
                return judge(histogram, estimate(histogram, method, format), format).sqnr_db;
            };
            for (const Method other : {Method::minmax, Method::percentile, Method::entropy}) {
                EXPECT_GE(sqnr(Method::mse), sqnr(other) - 0.02) << name << " " << to_string(other);
            }
        }
    }
}

TEST(Judge, CountsWhatIsClipped) {
    std::vector<float> values;
    for (int i = 1; i <= 1000; ++i)
        values.push_back(static_cast<float>(i));
    const Histogram histogram = histogram_of(values);
    EXPECT_NEAR(judge(histogram, {0.0F, 900.0F}, NumberFormat::uint8()).clipped_fraction, 0.1, 0.002);
    EXPECT_EQ(judge(histogram, {0.0F, 1000.0F}, NumberFormat::uint8()).clipped_fraction, 0.0);
    EXPECT_NEAR(judge(histogram, {-500.0F, 500.0F}, NumberFormat::int8()).clipped_fraction, 0.5, 0.002);
    // Step 1000/255, error uniform: power 1000^2/3 over step^2/12.
    EXPECT_NEAR(judge(histogram, {0.0F, 1000.0F}, NumberFormat::uint8()).sqnr_db, 10 * std::log10(4 * 255.0 * 255.0),
                0.1);
    EXPECT_EQ(judge(histogram_of({}), {}, NumberFormat::uint8()).clipped_fraction, 0.0);
}

TEST(Calibrator, IsTheEstimatorOverWhatItSaw) {
    const auto values = test::drawn(20'000, 12, [](float x) { return x; });
    for (const Estimator& estimator : estimators()) {
        const auto calibrator = make_calibrator(estimator.method, NumberFormat::int8());
        calibrator->observe(std::span(values).first(777));
        calibrator->observe(std::span(values).subspan(777));
        EXPECT_EQ(calibrator->range(), estimate(histogram_of(values), estimator.method, NumberFormat::int8()));
    }
}

TEST(Method, Names) {
    for (const Estimator& estimator : estimators()) {
        const auto method = method_from_name(estimator.name);
        ASSERT_TRUE(method);
        EXPECT_EQ(*method, estimator.method);
        EXPECT_STREQ(to_string(*method), estimator.name);
    }
    const auto unknown = method_from_name("magic");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(unknown.error().hint.find("entropy"), std::string::npos);
}

TEST(EstimateOptions, PercentileIsChecked) {
    EXPECT_TRUE(check(EstimateOptions{100.0}));
    for (const double bad : {0.0, -1.0, 100.1, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_FALSE(check(EstimateOptions{bad})) << bad;
}

} // namespace
} // namespace lathe
