#include "bench/engine_subject.hpp"
#include "bench/inputs.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(InputSets, ExceedTheCacheTwice) {
    struct Case {
        Shape shape;
        std::size_t cache;
    };
    for (const auto& [shape, cache] :
         {Case{{1, 3, 64, 64}, mebibyte}, Case{{8, 3, 64, 64}, 4 * mebibyte}, Case{{1, 3, 224, 224}, mebibyte}}) {
        auto inputs = InputSets::random({{"x", DataType::float32, shape}}, 1, cache);
        ASSERT_TRUE(inputs) << inputs.error().describe();
        EXPECT_GE(inputs->count(), 2U);
        EXPECT_GE(inputs->count() * inputs->bytes_per_set(), 2 * cache) << to_string(shape);
    }
}

TEST(InputSets, RandomValuesAreNormalAndReproducible) {
    const std::vector<InputSpec> specs{{"x", DataType::float32, {2, 100, 50}}};
    const auto inputs = InputSets::random(specs, 42, 1);
    const auto again = InputSets::random(specs, 42, 1);
    const auto other = InputSets::random(specs, 43, 1);
    ASSERT_TRUE(inputs && again && other);
    EXPECT_EQ(inputs->batch(), 2);
    EXPECT_EQ(inputs->set(0)[0].bytes, again->set(0)[0].bytes);
    EXPECT_NE(inputs->set(0)[0].bytes, other->set(0)[0].bytes);
    EXPECT_NE(inputs->set(0)[0].bytes, inputs->set(1)[0].bytes);
    double sum = 0;
    double squares = 0;
    const auto values = inputs->set(0)[0].as<float>();
    for (const float value : values) {
        sum += value;
        squares += value * value;
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 0.06);
}

TEST(InputSets, EveryNumericTypeIsFilledAndNeverAllZero) {
    for (const DataType type :
         {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::uint8, DataType::int8,
          DataType::boolean, DataType::int16, DataType::int32, DataType::int64, DataType::uint32}) {
        const auto inputs = InputSets::random({{"x", type, {4, 64}}}, 5, 1);
        ASSERT_TRUE(inputs) << to_string(type);
        const auto& bytes = inputs->set(0)[0].bytes;
        std::set<std::byte> distinct(bytes.begin(), bytes.end());
        EXPECT_GT(distinct.size(), 1U) << to_string(type);
    }
    const auto strings = InputSets::random({{"x", DataType::string, {1, 2}}}, 5, 1);
    ASSERT_FALSE(strings);
    EXPECT_EQ(strings.error().code, ErrorCode::unsupported);
    EXPECT_NE(strings.error().hint.find("--data"), std::string::npos);
}

TEST(InputSets, UnknownDimensionsAreRefused) {
    const auto inputs = InputSets::random({{"ids", DataType::int64, {1, -1}}}, 5, 1);
    ASSERT_FALSE(inputs);
    EXPECT_EQ(inputs.error().where, "ids");
    EXPECT_FALSE(InputSets::random({}, 5, 1));
}

/// Three samples whose value is their index, 1 channel of 2 pixels.
class ThreeSamples final : public Dataset {
public:
    std::size_t size() const override { return 3; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        if (at_ >= 3) return std::optional<Batch>();
        Batch batch;
        const std::size_t n = std::min(count, 3 - at_);
        batch.inputs.emplace_back("", DataType::float32, Shape{static_cast<std::int64_t>(n), 2});
        for (std::size_t i = 0; i < n; ++i) {
            batch.inputs[0].as<float>()[2 * i] = static_cast<float>(at_ + i);
            batch.inputs[0].as<float>()[2 * i + 1] = 9;
            batch.names.push_back(std::to_string(at_ + i));
            batch.labels.push_back(-1);
        }
        at_ += n;
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("three"); }

private:
    std::size_t at_ = 0;
};

TEST(InputSets, DataFillsWholeBatchesAndStartsAgainAtItsEnd) {
    ThreeSamples data;
    const auto inputs = InputSets::from_data({{"x", DataType::float32, {2, 2}}}, data, 24, no_progress());
    ASSERT_TRUE(inputs) << inputs.error().describe();
    ASSERT_GE(inputs->count(), 3U);
    EXPECT_EQ(inputs->preprocess_ms().size(), inputs->count());
    const auto first_of = [&](std::size_t set, std::size_t sample) {
        return inputs->set(set)[0].as<float>()[2 * sample];
    };
    EXPECT_EQ(first_of(0, 0), 0);
    EXPECT_EQ(first_of(0, 1), 1);
    EXPECT_EQ(first_of(1, 0), 2);
    EXPECT_EQ(first_of(1, 1), 0);
    EXPECT_EQ(inputs->set(1)[0].name, "x");
}

/// Requests of [2, 2] that are samples, and a number that all have.
class WholeRequests : public Dataset {
public:
    std::size_t size() const override { return 2; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t) override {
        if (at_ == 2) return std::optional<Batch>();
        Batch batch;
        batch.inputs.emplace_back("x", DataType::float32, Shape{2, 2});
        batch.inputs.emplace_back("step", DataType::int64, Shape{});
        batch.inputs[0].as<float>()[0] = static_cast<float>(at_);
        batch.inputs[1].as<std::int64_t>()[0] = 981;
        batch.names.push_back(std::to_string(at_++));
        batch.labels.push_back(-1);
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("two"); }

private:
    std::size_t at_ = 0;
};

TEST(InputSets, ASampleThatIsAWholeRequestFillsIt) {
    WholeRequests data;
    const auto inputs = InputSets::from_data({{"x", DataType::float32, {2, 2}}, {"step", DataType::int64, {}}}, data,
                                             24, no_progress());
    ASSERT_TRUE(inputs) << inputs.error().describe();
    EXPECT_EQ(inputs->set(0)[0].shape, (Shape{2, 2}));
    EXPECT_EQ(inputs->set(1)[0].as<float>()[0], 1);
    EXPECT_EQ(inputs->set(1)[1].as<std::int64_t>()[0], 981);
}

TEST(EngineInputs, OfFixedSizesKeepThem) {
    const auto fixed = [](const char* name, Shape shape) {
        return IoInfo{name, DataType::float32, {shape, shape, shape}};
    };
    EngineInfo info;
    info.inputs = {fixed("nodes", {20, 8}), fixed("edges", {2, 50})};
    const auto graph = engine_inputs(info, 20);
    ASSERT_TRUE(graph) << graph.error().describe();
    EXPECT_EQ((*graph)[1].shape, (Shape{2, 50}));
    EXPECT_FALSE(engine_inputs(info, 8)) << "the first is fixed as well";
    info.inputs[0] = {"x", DataType::float32, {{1, 8}, {4, 8}, {16, 8}}};
    EXPECT_TRUE(engine_inputs(info, 1)) << "a state beside single samples";
    EXPECT_FALSE(engine_inputs(info, 4));
}

TEST(InputSets, DataOfAnotherShapeIsRefused) {
    ThreeSamples data;
    const auto inputs = InputSets::from_data({{"x", DataType::float32, {2, 3}}}, data, 24, no_progress());
    ASSERT_FALSE(inputs);
    EXPECT_EQ(inputs.error().code, ErrorCode::mismatch);
    EXPECT_EQ(inputs.error().where, "x");
}

TEST(InputSets, WrittenDenselyInOrder) {
    const test::TemporaryFolder folder;
    const auto inputs = InputSets::random({{"a", DataType::float32, {2, 3}}, {"b", DataType::int64, {2, 1}}}, 1, 1);
    ASSERT_TRUE(inputs);
    ASSERT_TRUE(inputs->write(folder / "inputs.bin"));
    const auto text = read_text_file(folder / "inputs.bin");
    ASSERT_TRUE(text);
    EXPECT_EQ(text->size(), inputs->count() * (24 + 16));
    EXPECT_EQ(std::memcmp(text->data() + 24, inputs->set(0)[1].bytes.data(), 16), 0);
    EXPECT_EQ(std::memcmp(text->data() + 40, inputs->set(1)[0].bytes.data(), 24), 0);
    EXPECT_EQ(inputs->describe().dump(),
              R"([{"name":"a","type":"float32","shape":[2,3]},{"name":"b","type":"int64","shape":[2,1]}])");
}

TEST(LastLevelCache, IsPlausible) {
    EXPECT_GE(last_level_cache_bytes(), std::size_t{256} << 10);
    EXPECT_LE(last_level_cache_bytes(), std::size_t{4} << 30);
}

} // namespace
} // namespace lathe
