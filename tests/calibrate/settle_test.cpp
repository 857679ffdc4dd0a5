#include "calibrate/settle.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/quantization_error.hpp"
#include "samples.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

/// Samples that a function makes.
class MadeDataset final : public Dataset {
public:
    MadeDataset(std::size_t count, std::function<Values(std::size_t)> make) : count_(count), make_(std::move(make)) {}
    std::size_t size() const override { return count_; }
    bool has_labels() const override { return false; }
    void rewind() override { next_ = 0; }
    Result<std::string> digest() const override { return std::string("made"); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, count_ - next_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        for (std::size_t i = 0; i < count; ++i) {
            if (next_ == fail_at) return Error{ErrorCode::parse_error, "damaged", "photo.jpg", ""};
            const Values sample = make_(next_);
            if (i == 0) {
                batch.inputs.emplace_back(
                    "x", DataType::float32,
                    Shape{static_cast<std::int64_t>(count), static_cast<std::int64_t>(sample.size())});
            }
            std::memcpy(batch.inputs[0].as<float>().data() + i * sample.size(), sample.data(),
                        sample.size() * sizeof(float));
            batch.names.push_back(std::to_string(next_++));
            batch.labels.push_back(-1);
        }
        largest_batch = std::max(largest_batch, count);
        return std::optional<Batch>(std::move(batch));
    }

    std::optional<std::size_t> fail_at;
    std::size_t largest_batch = 0;

private:
    std::size_t count_;
    std::function<Values(std::size_t)> make_;
    std::size_t next_ = 0;
};

/// Shows the input and its ReLU.
class PlainSource final : public ActivationSource {
public:
    const std::vector<std::string>& tensors() const override { return names_; }
    std::size_t set_lanes(std::size_t most) override { return std::min<std::size_t>(most, 3); }
    Result<void> run(std::size_t /*lane*/, std::span<const TensorView> inputs, const Observer& observer) override {
        const std::span<const float> x = inputs[0].as<const float>();
        observer(0, x, inputs[0].shape);
        Values relu(x.begin(), x.end());
        for (float& value : relu)
            value = std::max(value, 0.0F);
        observer(1, relu, inputs[0].shape);
        return {};
    }

private:
    std::vector<std::string> names_{"x", "relu"};
};

Values gaussian(std::size_t sample, float scale = 1.0F, std::size_t width = 2000) {
    std::mt19937 random(static_cast<std::uint32_t>(sample) + 77);
    std::normal_distribution<float> normal;
    Values values(width);
    for (float& value : values)
        value = scale * normal(random);
    return values;
}

Result<SettledRanges> settled(MadeDataset dataset, CollectOptions options = {}, Method method = Method::mse,
                              const SettleRule& rule = {}, Progress& progress = no_progress()) {
    PlainSource source;
    return read_until_settled(source, dataset, options, {"m", "d", "", 300, true}, method, {}, rule, progress);
}

/// What is asked of a calibration that must not fail.
RangesFile read(MadeDataset dataset, CollectOptions options = {}, Method method = Method::mse,
                const SettleRule& rule = {}) {
    auto found = settled(std::move(dataset), options, method, rule);
    EXPECT_TRUE(found) << found.error().describe();
    if (!found) return {};
    EXPECT_TRUE(found->ranges.convergence);
    return std::move(found->ranges);
}

std::string file_of(const RangesFile& ranges) {
    const test::TemporaryFolder folder;
    EXPECT_TRUE(save_ranges(folder / "m.ranges", ranges));
    const auto text = read_text_file(folder / "m.ranges");
    EXPECT_TRUE(text);
    return text ? *text : "";
}

// ---- The statistic, against values quantised one by one. ----

double noise_of(const Values& values, const Range& range, const NumberFormat& format) {
    double scale = 0.0;
    double lowest = 0.0;
    double highest = 0.0;
    if (format.symmetric) {
        scale = std::max(-static_cast<double>(range.low), static_cast<double>(range.high)) / 127.0;
        lowest = -127.0;
        highest = 127.0;
    } else {
        scale = (static_cast<double>(range.high) - static_cast<double>(range.low)) / 255.0;
        lowest = -std::round(-static_cast<double>(range.low) / scale);
        highest = 255.0 + lowest;
    }
    double error = 0.0;
    double power = 0.0;
    for (const float value : values) {
        const auto x = static_cast<double>(value);
        const double q = scale == 0.0 ? 0.0 : scale * std::clamp(std::nearbyint(x / scale), lowest, highest);
        error += (x - q) * (x - q);
        power += x * x;
    }
    return power == 0.0 ? 0.0 : error / power;
}

CalibrationRound plain_round(const std::vector<Values>& before, const std::vector<Values>& fresh,
                             const std::vector<std::array<Range, 4>>& ranges) {
    CalibrationRound round;
    for (const bool is_signed : {false, true}) {
        const NumberFormat format = is_signed ? NumberFormat::int8() : NumberFormat::uint8();
        std::vector<double> old;
        std::vector<double> now;
        for (std::size_t t = 0; t < before.size(); ++t) {
            old.push_back(noise_of(fresh[t], ranges[t][is_signed ? 1 : 0], format));
            now.push_back(noise_of(fresh[t], ranges[t][is_signed ? 3 : 2], format));
        }
        double changed = 0.0;
        double total = 0.0;
        for (std::size_t t = 0; t < old.size(); ++t) {
            changed += std::abs(old[t] - now[t]);
            total += now[t];
        }
        round.noise_change = std::max(round.noise_change, changed / total);
        for (std::size_t t = 0; t < old.size(); ++t) {
            const double floor = total / static_cast<double>(old.size());
            round.worst_change = std::max(round.worst_change, std::abs(old[t] - now[t]) / std::max(now[t], floor));
        }
    }
    return round;
}

TEST(JudgeRound, EqualsValuesQuantisedOneByOne) {
    const std::vector<std::function<Values(std::size_t)>> tensors{
        [](std::size_t i) { return gaussian(i); },
        [](std::size_t i) { return gaussian(i, i == 0 ? 1.0F : 1.3F); }, // the new samples are larger
        [](std::size_t i) {
            Values values = gaussian(i);
            for (float& value : values)
                value = std::max(value, 0.0F);
            return values;
        },
        [](std::size_t i) {
            Values values = gaussian(i);
            for (float& value : values)
                value = value * value * value;
            return values;
        },
    };
    for (const Method method : {Method::minmax, Method::percentile, Method::entropy, Method::mse}) {
        SCOPED_TRACE(to_string(method));
        std::vector<Values> before;
        std::vector<Values> fresh;
        ActivationStatistics old;
        ActivationStatistics part;
        ActivationStatistics both;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            before.push_back(tensors[t](0));
            fresh.push_back(tensors[t](1));
            Values all = before.back();
            all.insert(all.end(), fresh.back().begin(), fresh.back().end());
            const std::string name = "t" + std::to_string(t);
            old.tensors.push_back({name, test::histogram_of(before.back())});
            part.tensors.push_back({name, test::histogram_of(fresh.back())});
            both.tensors.push_back({name, test::histogram_of(all)});
        }
        const RangesFile then = make_ranges(old, {}, method, {});
        const RangesFile now = make_ranges(both, {}, method, {});
        std::vector<std::array<Range, 4>> ranges;
        for (std::size_t t = 0; t < tensors.size(); ++t)
            ranges.push_back({then.tensors[t].uint8, then.tensors[t].int8, now.tensors[t].uint8, now.tensors[t].int8});
        const CalibrationRound expected = plain_round(before, fresh, ranges);
        const CalibrationRound found = judge_round(then, part.tensors, now, {}, 2);
        EXPECT_GT(expected.noise_change, 0.0);
        EXPECT_NEAR(found.noise_change, expected.noise_change, 0.02 * expected.noise_change + 0.002);
        EXPECT_NEAR(found.worst_change, expected.worst_change, 0.02 * expected.worst_change + 0.002);
    }
}

TEST(JudgeRound, NothingChangesNothing) {
    ActivationStatistics part;
    part.tensors.push_back({"t", test::histogram_of(gaussian(1))});
    const RangesFile ranges = make_ranges(part, {}, Method::mse, {});
    const CalibrationRound round = judge_round(ranges, part.tensors, ranges, {});
    EXPECT_EQ(round.noise_change, 0.0);
    EXPECT_EQ(round.worst_change, 0.0);
    EXPECT_EQ(round.worst_tensor, "");
}

// ---- When reading stops. ----

TEST(ReadUntilSettled, EqualSamplesStopAtTheLeastNumber) {
    const RangesFile ranges = read(MadeDataset(300, [](std::size_t) { return gaussian(5); }));
    EXPECT_EQ(ranges.samples_seen, 32U);
    ASSERT_EQ(ranges.convergence->rounds.size(), 1U);
    EXPECT_EQ(ranges.convergence->rounds[0].noise_change, 0.0);
    EXPECT_TRUE(ranges.convergence->settled);
    EXPECT_EQ(ranges.convergence->available, 300U);
}

TEST(ReadUntilSettled, OrdinarySamplesSettleNearWhatAllOfThemGive) {
    const auto make = [](std::size_t i) { return gaussian(i, 0.9F + 0.02F * static_cast<float>(i % 10)); };
    const RangesFile some = read(MadeDataset(300, make));
    EXPECT_TRUE(some.convergence->settled);
    EXPECT_LT(some.samples_seen, 300U);
    SettleRule never;
    never.noise_tolerance = -1.0;
    const RangesFile all = read(MadeDataset(300, make), {}, Method::mse, never);
    EXPECT_EQ(all.samples_seen, 300U);
    // The ranges may differ by several per cent; the noise that they cause on all samples by little. Tensors of 2,000
    // values a sample are the hard case: ranges from before and after a round are both too narrow, and it was 15 %.
    for (const NumberFormat& format : {NumberFormat::uint8(), NumberFormat::int8()}) {
        double noise = 0.0;
        double least = 0.0;
        for (std::size_t t = 0; t < all.tensors.size(); ++t) {
            const QuantizationError error(all.tensors[t].histogram);
            noise += error(grid_of(some.range(some.tensors[t], format), format)) / error.power();
            least += error(grid_of(all.range(all.tensors[t], format), format)) / error.power();
        }
        EXPECT_LT(noise, least * (1.0 + 4.0 * SettleRule{}.noise_tolerance));
    }
}

TEST(ReadUntilSettled, RangesThatGoOnGrowingReadAll) {
    const RangesFile ranges = read(
        MadeDataset(300, [](std::size_t i) { return gaussian(i, std::exp2(static_cast<float>(i) / 20.0F), 100); }));
    EXPECT_EQ(ranges.samples_seen, 300U);
    EXPECT_FALSE(ranges.convergence->settled);
    std::vector<std::size_t> read_then;
    for (const CalibrationRound& round : ranges.convergence->rounds)
        read_then.push_back(round.samples);
    EXPECT_EQ(read_then, (std::vector<std::size_t>{32, 64, 128, 256, 300}));
    EXPECT_EQ(ranges.convergence->rounds.back().fresh, 44U);
    EXPECT_THAT(describe(*ranges.convergence), HasSubstr("all of 300 samples; the last 44 changed"));
    EXPECT_THAT(describe(*ranges.convergence), HasSubstr("had not settled"));
}

TEST(ReadUntilSettled, OneTensorThatMovesIsEnoughToReadOn) {
    // "relu" is all zero in the first 16 samples, x is alike in all of them.
    const auto make = [](std::size_t i) {
        Values values = gaussian(3);
        for (float& value : values)
            value = i < 16 ? -std::abs(value) : value;
        return values;
    };
    const RangesFile ranges = read(MadeDataset(300, make));
    EXPECT_GT(ranges.samples_seen, 32U);
    EXPECT_TRUE(ranges.convergence->settled);
    EXPECT_EQ(ranges.convergence->rounds.front().worst_tensor, "relu");
}

TEST(ReadUntilSettled, AWholeRangeIsJudgedByWhatItWouldClip) {
    // Extremes that creep on: each clips a little of one value, but minmax's steps go on growing.
    const auto creeping = [](std::size_t i) {
        Values values = gaussian(i, 1.0F, 100'000);
        values[7] = 5.0F + 0.03F * static_cast<float>(i);
        return values;
    };
    SettleRule rule;
    rule.whole_ranges = {"x", "relu"};
    EXPECT_EQ(read(MadeDataset(64, creeping), {}, Method::mse, rule).samples_seen, 32U);
    EXPECT_GT(read(MadeDataset(64, creeping), {}, Method::minmax).samples_seen, 32U);
    // Extremes that jump: the ranges before would have cut them off.
    const auto jumping = [](std::size_t i) {
        Values values = gaussian(i, 1.0F, 20'000);
        values[7] = i < 16 ? 10.0F : 40.0F;
        return values;
    };
    const RangesFile ranges = read(MadeDataset(200, jumping), {}, Method::mse, rule);
    EXPECT_GT(ranges.samples_seen, 32U);
    EXPECT_GT(ranges.convergence->rounds.front().noise_change, rule.noise_tolerance);
    EXPECT_TRUE(ranges.convergence->settled);
}

TEST(ReadUntilSettled, DoesNotDependOnBatchSizeThreadsOrLanes) {
    const auto make = [](std::size_t i) { return gaussian(i, 1.0F + 0.3F * static_cast<float>(i % 7), 300); };
    const std::string expected = file_of(read(MadeDataset(100, make)));
    for (const std::size_t batch_size : {2, 5, 16, 64}) {
        for (const std::size_t threads : {1, 2, 5}) {
            CollectOptions options;
            options.batch_size = batch_size;
            options.threads = threads;
            EXPECT_EQ(file_of(read(MadeDataset(100, make), options)), expected)
                << "batch size " << batch_size << ", " << threads << " threads";
        }
    }
}

TEST(ReadUntilSettled, AFixedBatchIsReadWhole) {
    CollectOptions options;
    options.batch_size = 24;
    options.whole_batches = true;
    options.samples = 240;
    MadeDataset dataset(250, [](std::size_t) { return gaussian(5); });
    PlainSource source;
    const auto found = read_until_settled(source, dataset, options, {}, Method::mse, {}, {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ranges.samples_seen, 48U);
    EXPECT_EQ(dataset.largest_batch, 24U);
}

TEST(ReadUntilSettled, NeverMoreThanAsked) {
    CollectOptions options;
    options.samples = 50;
    const auto growing = [](std::size_t i) { return gaussian(i, static_cast<float>(i + 1), 100); };
    EXPECT_EQ(read(MadeDataset(300, growing), options).samples_seen, 50U);
    EXPECT_EQ(read(MadeDataset(300, growing), options).convergence->available, 50U);
}

TEST(ReadUntilSettled, FewSamplesAreAllRead) {
    for (const std::size_t count : {1, 2, 5, 16, 17, 31}) {
        SCOPED_TRACE(count);
        const auto make = [](std::size_t i) { return gaussian(i, 1.0F, 50); };
        const RangesFile ranges = read(MadeDataset(count, make));
        EXPECT_EQ(ranges.samples_seen, count);
        EXPECT_FALSE(ranges.convergence->settled);
        EXPECT_EQ(ranges.convergence->rounds.size(), count > 16 ? 1U : 0U);
        // The same as without the rule, apart from what it says of itself.
        MadeDataset dataset(count, make);
        PlainSource source;
        const auto statistics = collect(source, dataset, {});
        ASSERT_TRUE(statistics);
        RangesFile plain = make_ranges(*statistics, ranges.key, Method::mse, {});
        plain.convergence = ranges.convergence;
        EXPECT_EQ(file_of(ranges), file_of(plain));
        EXPECT_THAT(describe(*ranges.convergence), HasSubstr("all of " + std::to_string(count) + " sample"));
    }
}

TEST(ReadUntilSettled, NaNSamplesAreCountedAndDoNotHinder) {
    const auto make = [](std::size_t i) {
        if (i % 4 != 1) return gaussian(5);
        return Values(2000, std::numeric_limits<float>::quiet_NaN());
    };
    const RangesFile ranges = read(MadeDataset(300, make));
    EXPECT_EQ(ranges.samples_seen, 32U);
    EXPECT_EQ(ranges.tensors[0].histogram.nans(), 8U * 2000U);
    const auto nothing = [](std::size_t) { return Values(100, std::numeric_limits<float>::quiet_NaN()); };
    EXPECT_EQ(read(MadeDataset(300, nothing)).samples_seen, 32U);
}

TEST(ReadUntilSettled, Failures) {
    const auto make = [](std::size_t i) { return gaussian(i, static_cast<float>(i + 1), 100); };
    EXPECT_EQ(settled(MadeDataset(0, make)).error().code, ErrorCode::not_found);
    MadeDataset damaged(100, make);
    damaged.fail_at = 40; // in the second round
    const auto failed = settled(damaged);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().describe(), HasSubstr("photo.jpg"));
    CollectOptions options;
    options.batch_size = 0;
    EXPECT_EQ(settled(MadeDataset(100, make), options).error().code, ErrorCode::invalid_argument);
}

TEST(ReadUntilSettled, StopsWhenCancelled) {
    struct Stopping final : Progress {
        void advance(std::size_t count) override { steps += count; }
        bool cancelled() const override { return steps >= 40; }
        std::size_t steps = 0;
    } progress;
    CollectOptions options;
    options.threads = 1;
    const auto result = settled(MadeDataset(300, [](std::size_t i) { return gaussian(i, static_cast<float>(i + 1)); }),
                                options, Method::mse, {}, progress);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::cancelled);
    EXPECT_EQ(progress.steps, 40U);
}

// ---- What is said and kept. ----

TEST(Convergence, Words) {
    CalibrationConvergence convergence{300, true, {{32, 16, 0.031, 0.2, "conv1"}, {64, 32, 0.0123, 0.0456, "conv2"}}};
    EXPECT_EQ(describe(convergence),
              "64 of 300 samples; the last 32 changed the quantisation noise by 1.2 %, by 4.6 % at most (conv2)");
    convergence = {2, false, {}};
    EXPECT_EQ(describe(convergence), "all of 2 samples, too few to see whether more would change the ranges");
}

TEST(Convergence, IsKeptInTheRangesFile) {
    const RangesFile ranges =
        read(MadeDataset(64, [](std::size_t i) { return gaussian(i, static_cast<float>(i + 1), 100); }));
    const auto again = parse_ranges(file_of(ranges), "m.ranges");
    ASSERT_TRUE(again) << again.error().describe();
    EXPECT_TRUE(again->key.until_settled);
    ASSERT_TRUE(again->convergence);
    EXPECT_EQ(to_json(*again->convergence), to_json(*ranges.convergence));
    EXPECT_EQ(again->convergence->rounds.size(), 2U);
    EXPECT_EQ(file_of(*again), file_of(ranges));

    const auto fixed = validate_ranges(*again, {"", "", "", 300, false});
    ASSERT_FALSE(fixed);
    EXPECT_THAT(fixed.error().describe(), HasSubstr("until they settled (--samples auto), on 64 samples, not on 300"));
    EXPECT_TRUE(validate_ranges(*again, {"m", "d", "", 300, true}));
}

} // namespace
} // namespace lathe
