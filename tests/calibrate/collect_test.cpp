#include "calibrate/collect.hpp"

#include <cstring>
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

    std::optional<std::size_t> fail_at;
    std::size_t largest_batch = 0;

private:
    std::size_t width_;
    std::size_t next_ = 0;
    std::vector<std::vector<float>> samples_;
};

/// Shows the input, its ReLU, and three million copies of it a sample (more than one task a tensor).
class CopySource final : public ActivationSource {
public:
    explicit CopySource(std::size_t copies) : copies_(copies) {}
    const std::vector<std::string>& tensors() const override { return names_; }
    Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) override {
        const std::span<float> x = inputs[0].as<float>();
        relu_.assign(x.begin(), x.end());
        for (float& value : relu_)
            value = std::max(value, 0.0F);
        large_.clear();
        for (std::size_t i = 0; i < copies_; ++i)
            large_.insert(large_.end(), x.begin(), x.end());
        const auto view = [](const char* name, std::vector<float>& values) {
            return TensorView{name,
                              DataType::float32,
                              {static_cast<std::int64_t>(values.size())},
                              std::as_writable_bytes(std::span(values))};
        };
        std::vector<TensorView> views{inputs[0], view("relu", relu_), view("large", large_)};
        views[0].name = "x";
        if (wrong_type) views[1].type = DataType::int32;
        if (one_short) views.pop_back();
        return views;
    }
    bool wrong_type = false;
    bool one_short = false;

private:
    std::vector<std::string> names_{"x", "relu", "large"};
    std::size_t copies_;
    std::vector<float> relu_;
    std::vector<float> large_;
};

Result<ActivationStatistics> collected(std::size_t samples, std::size_t batch_size, std::size_t threads,
                                       std::uint32_t seed, std::size_t copies = 40) {
    RandomDataset dataset(20, 12'000, seed);
    CopySource source(copies);
    CollectOptions options;
    options.samples = samples;
    options.batch_size = batch_size;
    options.threads = threads;
    return collect(source, dataset, options);
}

TEST(Collect, DoesNotDependOnBatchSizeOrThreads) {
    const auto seed = static_cast<std::uint32_t>(std::random_device()());
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto expected = collected(20, 1, 1, seed);
    ASSERT_TRUE(expected) << expected.error().describe();
    EXPECT_EQ(expected->samples, 20U);
    ASSERT_EQ(expected->tensors.size(), 3U);
    EXPECT_EQ(expected->tensors[2].histogram.count(), 20U * 12'000U * 40U);
    for (const std::size_t batch_size : {2, 3, 7, 20, 64}) {
        for (const std::size_t threads : {1, 2, 5}) {
            const auto found = collected(20, batch_size, threads, seed);
            ASSERT_TRUE(found);
            for (std::size_t t = 0; t < 3; ++t) {
                EXPECT_TRUE(found->tensors[t].histogram == expected->tensors[t].histogram)
                    << found->tensors[t].name << ", batch size " << batch_size << ", " << threads << " threads";
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
        {"type", ErrorCode::internal, "int32",
         [](RandomDataset&, CopySource& s, CollectOptions&) { s.wrong_type = true; }},
        {"count", ErrorCode::internal, "announced",
         [](RandomDataset&, CopySource& s, CollectOptions&) { s.one_short = true; }},
        {"batch", ErrorCode::invalid_argument, "batch size",
         [](RandomDataset&, CopySource&, CollectOptions& o) { o.batch_size = 0; }},
        {"empty", ErrorCode::not_found, "no samples",
         [](RandomDataset& d, CopySource&, CollectOptions&) { d = RandomDataset(0, 1, 1); }},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.name);
        RandomDataset dataset(10, 10, 1);
        CopySource source(1);
        CollectOptions options;
        c.prepare(dataset, source, options);
        const auto result = collect(source, dataset, options);
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, c.code);
        EXPECT_NE(result.error().describe().find(c.text), std::string::npos) << result.error().describe();
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
    const auto findings = check_activations({named("fine", {-1.0F, 0.0F, 2.0F}), named("dead", {0.0F, -0.0F}),
                                             named("constant", {0.5F, 0.5F}), named("large", {1.0F, -20'000.0F}),
                                             named("infinite", {1.0F, infinity}), named("scalar", {3.0F})});
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
