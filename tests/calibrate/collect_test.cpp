#include "calibrate/collect.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "samples.hpp"

namespace lathe {
namespace {

/// `count` samples of `width` random floats, with a few hostile ones.
class RandomDataset final : public Dataset {
public:
    RandomDataset(std::size_t count, std::size_t width, std::uint32_t seed) : width_(width) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (std::size_t i = 0; i < count; ++i) {
            std::vector<float> sample(width);
            const float scale = std::ldexp(1.0F, static_cast<int>(random() % 20) - 10);
            for (float& value : sample)
                value = scale * normal(random);
            samples_.push_back(std::move(sample));
        }
    }

    std::size_t size() const override { return samples_.size(); }
    bool has_labels() const override { return false; }
    void rewind() override { next_ = 0; }
    Result<std::string> digest() const override { return std::string("random"); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        if (fail_at && next_ >= *fail_at) return Error{ErrorCode::parse_error, "damaged", "photo.jpg", ""};
        count = std::min(count, samples_.size() - next_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        batch.inputs.emplace_back("x", DataType::float32,
                                  Shape{static_cast<std::int64_t>(count), static_cast<std::int64_t>(width_)});
        for (std::size_t i = 0; i < count; ++i) {
            std::memcpy(batch.inputs[0].as<float>().data() + i * width_, samples_[next_].data(),
                        width_ * sizeof(float));
            batch.names.push_back(std::to_string(next_++));
            batch.labels.push_back(-1);
        }
        largest_batch = std::max(largest_batch, count);
        return std::optional<Batch>(std::move(batch));
    }

    float first_value(std::size_t sample) const { return samples_[sample][0]; }

    std::optional<std::size_t> fail_at;
    std::size_t largest_batch = 0;

private:
    std::size_t width_;
    std::size_t next_ = 0;
    std::vector<std::vector<float>> samples_;
};

/// Shows the input, its ReLU, and many copies of it (more than one task a tensor).
class CopySource final : public ActivationSource {
public:
    explicit CopySource(std::size_t copies, std::size_t most_lanes = 1) : copies_(copies), most_lanes_(most_lanes) {}
    const std::vector<std::string>& tensors() const override { return names_; }
    std::size_t set_lanes(std::size_t most) override {
        lanes = std::min(most, most_lanes_);
        return lanes;
    }
    Result<void> run(std::size_t lane, std::span<const TensorView> inputs, const Observer& observer) override {
        if (lane >= lanes) return Error{ErrorCode::internal, "there is no such lane", "", ""};
        const std::span<const float> x = inputs[0].as<const float>();
        if (fail_at && std::abs(x[0]) == *fail_at) return Error{ErrorCode::unsupported, "too much", "", ""};
        std::vector<float> relu(x.begin(), x.end());
        for (float& value : relu)
            value = std::max(value, 0.0F);
        std::vector<float> large;
        for (std::size_t i = 0; i < copies_; ++i)
            large.insert(large.end(), x.begin(), x.end());
        observer(2, large, {});
        observer(0, x, inputs[0].shape);
        if (!one_short) observer(1, relu, inputs[0].shape);
        if (one_twice) observer(0, x, inputs[0].shape);
        return {};
    }
    std::optional<float> fail_at;
    bool one_short = false;
    bool one_twice = false;
    std::size_t lanes = 1;

private:
    std::vector<std::string> names_{"x", "relu", "large"};
    std::size_t copies_;
    std::size_t most_lanes_;
};

Result<ActivationStatistics> collected(std::size_t samples, std::size_t batch_size, std::size_t threads,
                                       std::uint32_t seed, std::size_t most_lanes = 1) {
    RandomDataset dataset(20, 12'000, seed);
    CopySource source(40, most_lanes);
    CollectOptions options;
    options.samples = samples;
    options.batch_size = batch_size;
    options.threads = threads;
    return collect(source, dataset, options);
}

/// Sentences of up to 5 positions of 3 values, in batches filled up to the longest with `filling`.
class Sentences final : public Dataset {
public:
    explicit Sentences(float filling) : filling_(filling) {}
    std::size_t size() const override { return 9; }
    bool has_labels() const override { return false; }
    void rewind() override { next_ = 0; }
    Result<std::string> digest() const override { return std::string("sentences"); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, size() - next_);
        if (count == 0) return std::optional<Batch>{};
        std::size_t longest = 0;
        for (std::size_t i = next_; i < next_ + count; ++i)
            longest = std::max(longest, length(i));
        const Shape shape{static_cast<std::int64_t>(count), static_cast<std::int64_t>(longest)};
        HostTensor mask("attention_mask", DataType::int64, shape);
        HostTensor x("x", DataType::float32, {shape[0], shape[1], 3});
        Batch batch;
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < longest; ++k) {
                const bool own = k < length(next_ + i);
                mask.as<std::int64_t>()[i * longest + k] = own ? 1 : 0;
                for (std::size_t c = 0; c < 3; ++c) {
                    const float value = static_cast<float>((next_ + i) * 100 + k * 10 + c) / 64.0F - 3.0F;
                    x.as<float>()[(i * longest + k) * 3 + c] = own ? value : filling_;
                }
            }
            batch.names.push_back(std::to_string(next_ + i));
        }
        batch.inputs = {std::move(x), std::move(mask)};
        next_ += count;
        return std::optional<Batch>(std::move(batch));
    }

private:
    static std::size_t length(std::size_t sample) { return 1 + sample * 2 % 5; }
    float filling_;
    std::size_t next_ = 0;
};

// Whatever stands at padding: the histograms are those of the sentences alone. Where the source cannot say how its
// values lie, all of them count.
TEST(Collect, LeavesPaddingOut) {
    const auto collected_from = [](std::size_t batch_size, float filling) {
        Sentences dataset(filling);
        CopySource source(2);
        CollectOptions options;
        options.samples = 0;
        options.batch_size = batch_size;
        options.threads = 1;
        return collect(source, dataset, options);
    };
    const auto alone = collected_from(1, 0.0F);
    ASSERT_TRUE(alone) << alone.error().describe();
    for (const std::size_t batch_size : {2, 4, 9}) {
        const auto padded = collected_from(batch_size, 1000.0F);
        ASSERT_TRUE(padded) << padded.error().describe();
        for (const std::size_t tensor : {0, 1}) {
            EXPECT_TRUE(padded->tensors[tensor].histogram == alone->tensors[tensor].histogram)
                << padded->tensors[tensor].name << ", batch size " << batch_size;
        }
        EXPECT_EQ(padded->tensors[2].histogram.max(), 1000.0F) << "shown without a shape";
    }
}

TEST(Collect, DoesNotDependOnBatchSizeThreadsOrLanes) {
    const auto seed = static_cast<std::uint32_t>(std::random_device()());
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto expected = collected(20, 1, 1, seed);
    ASSERT_TRUE(expected) << expected.error().describe();
    EXPECT_EQ(expected->samples, 20U);
    ASSERT_EQ(expected->tensors.size(), 3U);
    EXPECT_EQ(expected->tensors[2].histogram.count(), 20U * 12'000U * 40U);
    for (const std::size_t batch_size : {2, 3, 7, 20, 64}) {
        for (const std::size_t threads : {1, 2, 5}) {
            for (const std::size_t most_lanes : {1, 2, 3}) {
                const auto found = collected(20, batch_size, threads, seed, most_lanes);
                ASSERT_TRUE(found);
                EXPECT_EQ(found->samples, 20U);
                for (std::size_t t = 0; t < 3; ++t) {
                    EXPECT_TRUE(found->tensors[t].histogram == expected->tensors[t].histogram)
                        << found->tensors[t].name << ", batch size " << batch_size << ", " << threads << " threads, "
                        << most_lanes << " lanes";
                }
            }
        }
    }
}

TEST(Collect, TakesTheFirstSamplesOnly) {
    RandomDataset dataset(20, 100, 1);
    CopySource source(1);
    CollectOptions options;
    options.samples = 10;
    options.batch_size = 4;
    ASSERT_TRUE(dataset.next(5)); // a used dataset is rewound
    const auto some = collect(source, dataset, options);
    ASSERT_TRUE(some);
    EXPECT_EQ(some->samples, 10U);
    EXPECT_EQ(some->tensors[0].histogram.count(), 1000U);
    options.samples = 0;
    const auto all = collect(source, dataset, options);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->samples, 20U);
}

TEST(Collect, ReadsOneBatchWhereTheTimeIsOver) {
    for (const std::size_t lanes : {1U, 3U}) {
        RandomDataset dataset(20, 100, 3);
        CopySource source(2, lanes);
        CollectOptions options;
        options.batch_size = 2;
        options.threads = 3;
        options.time_limit_s = 1e-9;
        const auto cut = collect(source, dataset, options);
        ASSERT_TRUE(cut) << cut.error().describe();
        EXPECT_EQ(cut->samples, 2U);
        EXPECT_EQ(cut->tensors[0].histogram.count(), 200U);
        options.time_limit_s = 1000;
        const auto all = collect(source, dataset, options);
        ASSERT_TRUE(all) << all.error().describe();
        EXPECT_EQ(all->samples, 20U);
    }
}

TEST(Collect, TimeIsThatOfAllRoundsTogether) {
    RandomDataset dataset(20, 100, 3);
    CopySource source(2);
    CollectOptions options;
    options.time_limit_s = 1e-9;
    auto collector = Collector::make(source, dataset, options, no_progress());
    ASSERT_TRUE(collector) << collector.error().describe();
    EXPECT_EQ(collector->next(8)->samples, 1U);
    EXPECT_EQ(collector->next(8)->samples, 0U);
}

TEST(Collect, Failures) {
    struct Case {
        const char* name;
        ErrorCode code;
        const char* text;
        void (*prepare)(RandomDataset&, CopySource&, CollectOptions&);
    };
    const std::vector<Case> cases{
        {"sample", ErrorCode::parse_error, "photo.jpg",
         [](RandomDataset& d, CopySource&, CollectOptions&) { d.fail_at = 3; }},
        {"run", ErrorCode::unsupported, "too much",
         [](RandomDataset& d, CopySource& s, CollectOptions&) { s.fail_at = std::abs(d.first_value(6)); }},
        {"unseen", ErrorCode::internal, "0 times",
         [](RandomDataset&, CopySource& s, CollectOptions&) { s.one_short = true; }},
        {"twice", ErrorCode::internal, "2 times",
         [](RandomDataset&, CopySource& s, CollectOptions&) { s.one_twice = true; }},
        {"batch", ErrorCode::invalid_argument, "batch size",
         [](RandomDataset&, CopySource&, CollectOptions& o) { o.batch_size = 0; }},
        {"empty", ErrorCode::not_found, "no samples",
         [](RandomDataset& d, CopySource&, CollectOptions&) { d = RandomDataset(0, 1, 1); }},
    };
    for (const Case& c : cases) {
        for (const std::size_t lanes : {1, 3}) {
            SCOPED_TRACE(c.name);
            RandomDataset dataset(10, 10, 1);
            CopySource source(1, lanes);
            CollectOptions options;
            options.threads = 4;
            c.prepare(dataset, source, options);
            const auto result = collect(source, dataset, options);
            ASSERT_FALSE(result);
            EXPECT_EQ(result.error().code, c.code);
            EXPECT_NE(result.error().describe().find(c.text), std::string::npos) << result.error().describe();
        }
    }
}

TEST(Collect, HasNoMoreLanesThanBatchesOrThreads) {
    for (const auto& [batch_size, threads, lanes] :
         std::vector<std::array<std::size_t, 3>>{{4, 8, 5}, {4, 2, 2}, {20, 8, 1}, {64, 8, 1}, {1, 1, 1}}) {
        RandomDataset dataset(20, 10, 1);
        CopySource source(1, 100);
        CollectOptions options;
        options.batch_size = batch_size;
        options.threads = threads;
        ASSERT_TRUE(collect(source, dataset, options));
        EXPECT_EQ(source.lanes, lanes) << "batch size " << batch_size << ", " << threads << " threads";
    }
}

TEST(Collect, StopsWhenCancelled) {
    struct Stopping final : Progress {
        void advance(std::size_t) override { ++steps; }
        bool cancelled() const override { return steps >= 3; }
        std::size_t steps = 0;
    } progress;
    RandomDataset dataset(10, 10, 1);
    CopySource source(1);
    const auto result = collect(source, dataset, {}, progress);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::cancelled);
    EXPECT_EQ(progress.steps, 3U);
}

TEST(CheckActivations, NamesWhatIsOdd) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const auto named = [](const char* name, std::vector<float> values) {
        return TensorStatistics{name, test::histogram_of(values)};
    };
    std::vector<CalibrationFinding> findings;
    for (const TensorStatistics& tensor :
         {named("fine", {-1.0F, 0.0F, 2.0F}), named("dead", {0.0F, -0.0F}), named("constant", {0.5F, 0.5F}),
          named("large", {1.0F, -20'000.0F}), named("infinite", {1.0F, infinity}), named("scalar", {3.0F})})
        check_activation(tensor.name, tensor.histogram, findings);
    ASSERT_EQ(findings.size(), 4U);
    const std::vector<std::pair<std::string, std::string>> expected{{"dead_activation", "dead"},
                                                                    {"constant_activation", "constant"},
                                                                    {"exploding_activation", "large"},
                                                                    {"nonfinite_activation", "infinite"}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(findings[i].name, expected[i].first);
        EXPECT_EQ(findings[i].tensor, expected[i].second);
    }
    EXPECT_EQ(findings[3].severity, FindingSeverity::error);
}

} // namespace
} // namespace lathe
