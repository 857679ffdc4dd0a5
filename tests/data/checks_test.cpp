#include "data/checks.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/open_dataset.hpp"

namespace lathe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Preprocess imagenet() {
    Preprocess preprocess;
    preprocess.crop = Preprocess::Size{8, 8};
    preprocess.scale = 1.0 / 255;
    preprocess.mean = {0.485, 0.456, 0.406};
    preprocess.std = {0.229, 0.224, 0.225};
    return preprocess;
}

/// Pixels of a plausible photograph, 0..255, turned into values by `encode(pixel, channel)`.
Batch photos(std::size_t count, const std::function<float(float, std::size_t)>& encode, unsigned seed = 1) {
    Batch batch;
    batch.inputs.emplace_back("input", DataType::float32, Shape{static_cast<std::int64_t>(count), 3, 8, 8});
    std::mt19937 random(seed);
    std::normal_distribution<float> pixel(115, 60);
    const auto values = batch.inputs[0].as<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = encode(std::round(std::clamp(pixel(random), 0.0F, 255.0F)), i / 64 % 3);
    for (std::size_t n = 0; n < count; ++n) {
        batch.names.push_back("s" + std::to_string(n));
        batch.labels.push_back(static_cast<std::int64_t>(n % 2));
    }
    return batch;
}

float normalise(float pixel, std::size_t channel) {
    const Preprocess preprocess = imagenet();
    return static_cast<float>((pixel * preprocess.scale - preprocess.mean[channel]) / preprocess.std[channel]);
}

std::vector<std::string> names_of(const DataChecks& checks) {
    std::vector<std::string> names;
    for (const DataFinding& finding : checks.findings())
        names.push_back(finding.name);
    return names;
}

TEST(DataChecks, CutTextsAreCounted) {
    DataChecks checks(DataExpectations{{}, 4});
    Batch batch;
    batch.inputs.emplace_back("input_ids", DataType::int64, Shape{2, 2});
    batch.names = {"a", "b"};
    batch.token_limit = 8;
    for (const std::int64_t id : {1, 2}) { // no duplicates
        batch.inputs[0].as<std::int64_t>()[0] = id;
        batch.inputs[0].as<std::int64_t>()[2] = 2 + id;
        checks.observe(batch);
        EXPECT_THAT(names_of(checks), Not(Contains("cut_texts")));
    }
    batch.inputs[0].as<std::int64_t>()[1] = 5;
    batch.inputs[0].as<std::int64_t>()[3] = 6;
    batch.cut = 1;
    checks.observe(batch);
    ASSERT_THAT(names_of(checks), ElementsAre("cut_texts"));
    EXPECT_THAT(checks.findings()[0].detail, HasSubstr("1 of 6 texts have more than the 8 tokens"));
}

TEST(DataChecks, GoodDataHasNoFindings) {
    DataChecks checks({imagenet()});
    for (unsigned seed = 0; seed < 5; ++seed)
        checks.observe(photos(10, normalise, seed));
    EXPECT_THAT(names_of(checks), testing::IsEmpty());
    EXPECT_EQ(checks.samples(), 50U);
}

TEST(DataChecks, WrongValueRanges) {
    struct Case {
        const char* what;
        std::function<float(float, std::size_t)> encode;
        const char* said;
    };
    for (const auto& [what, encode, said] : std::vector<Case>{
             {"raw pixels", [](float pixel, std::size_t) { return pixel; }, "0..255 that were not scaled"},
             {"unit pixels", [](float pixel, std::size_t) { return pixel / 255; }, "0..1 that were not normalised"},
             {"normalised twice", [](float pixel, std::size_t c) { return normalise(pixel / 255, c); }, "look like"},
             {"nearly black", [](float pixel, std::size_t c) { return normalise(pixel / 64, c); }, "look like"},
         }) {
        DataChecks checks({imagenet()});
        checks.observe(photos(40, encode));
        const auto findings = checks.findings();
        ASSERT_EQ(findings.size(), 1U) << what;
        EXPECT_EQ(findings[0].name, "wrong_value_range") << what;
        EXPECT_THAT(findings[0].detail, HasSubstr(said)) << what;
        EXPECT_THAT(findings[0].detail, HasSubstr("the model expects")) << what;
    }
}

/// A model that says nothing: only the two common mistakes are pointed out, and mildly.
TEST(DataChecks, WithoutExpectations) {
    DataChecks raw;
    raw.observe(photos(40, [](float pixel, std::size_t) { return pixel; }));
    ASSERT_THAT(names_of(raw), testing::ElementsAre("wrong_value_range"));
    EXPECT_EQ(raw.findings()[0].severity, DataFinding::Severity::information);
    DataChecks normalised;
    normalised.observe(photos(40, normalise));
    EXPECT_THAT(names_of(normalised), testing::IsEmpty());
}

TEST(DataChecks, DuplicatesConstantsNonfiniteLabelsAndCount) {
    DataChecks checks({imagenet()});
    Batch batch = photos(6, normalise);
    const auto values = batch.inputs[0].as<float>();
    std::copy_n(values.begin(), 192, values.begin() + 2 * 192);
    std::fill_n(values.begin() + 3 * 192, 192, 0.25F);
    values[4 * 192 + 5] = std::numeric_limits<float>::quiet_NaN();
    std::ranges::fill(batch.labels, 1);
    checks.observe(batch);
    checks.observe(photos(1, normalise, 1)); // sample 0 of the first batch again
    EXPECT_THAT(names_of(checks),
                testing::ElementsAre("nonfinite_values", "constant_images", "duplicates", "too_few_samples"));
    const Json json = to_json(checks.findings());
    EXPECT_EQ(json[0]["severity"], "error");
    EXPECT_THAT(json[0]["detail"].get<std::string>(), HasSubstr("1 of 7 samples hold NaN or infinite values: s4"));
    EXPECT_THAT(json[1]["detail"].get<std::string>(), HasSubstr("s3"));
    EXPECT_THAT(json[2]["detail"].get<std::string>(), HasSubstr("2 of 7 samples repeat an earlier one: s2 = s0"));

    DataChecks single({imagenet(), 4});
    Batch labelled = photos(6, normalise);
    std::ranges::fill(labelled.labels, 3);
    single.observe(labelled);
    EXPECT_THAT(names_of(single), testing::ElementsAre("single_label"));
}

TEST(DataChecks, TokenIdsAreNotImages) {
    DataChecks checks({{}, 1});
    Batch batch;
    batch.inputs.emplace_back("ids", DataType::int64, Shape{1, 128});
    batch.names = {"a"};
    batch.labels = {-1};
    checks.observe(batch);
    EXPECT_THAT(names_of(checks), testing::IsEmpty());
}

} // namespace
} // namespace lathe
