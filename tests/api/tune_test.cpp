// tune, as programs that link liblathe.so call it.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/engine.hpp>
#include <lathe/tune.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

const std::filesystem::path tune_data = test::build_path("tests/api/data");

TuneRequest quick(const test::TemporaryFolder& folder) {
    TuneRequest request{
        .model = tune_data / "small.onnx", .data = tune_data / "data.npy", .output = folder / "best.engine"};
    request.metric = "kl";
    request.max_drop = 1;
    request.budget_s = 0;
    request.time_limit_s = 0.1;
    request.sensitivity_samples = 4;
    request.effort = 0;
    return request;
}

TEST(Tune, HandsOutAnEngineThatItJudged) {
    const test::TemporaryFolder folder;
    TuneRequest request = quick(folder);
    request.results = folder / "t.json";
    std::vector<std::string> tried;
    bool any_best = false;
    request.tried = [&](const TuneTrial& trial, bool best) {
        tried.push_back(trial.name);
        any_best = any_best || best;
    };
    const TuneResult found = tune(request).value();
    EXPECT_EQ(found.metric, "kl");
    EXPECT_EQ(found.drop_unit, "nats");
    EXPECT_EQ(found.loss_name, "KL");
    EXPECT_EQ(found.search_samples, 32U);
    EXPECT_EQ(found.judged_samples, 32U) << "the other half";
    ASSERT_GE(found.trials.size(), 2U);
    EXPECT_EQ(found.trials[0].name, "FP32");
    EXPECT_TRUE(any_best);
    EXPECT_THAT(tried, testing::Contains("FP32"));
    EXPECT_THAT(tried, testing::Contains("INT8"));
    EXPECT_EQ(std::ranges::count(found.trials, true, &TuneTrial::chosen), 1);
    const auto chosen = std::ranges::find(found.trials, true, &TuneTrial::chosen);
    EXPECT_EQ(chosen->name, found.chosen);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(found.trials, true, &TuneTrial::pareto)), found.front.size());
    for (std::size_t i = 1; i < found.front.size(); ++i)
        EXPECT_GE(found.trials[found.front[i - 1]].speedup.value, found.trials[found.front[i]].speedup.value);
    ASSERT_EQ(found.layers.size(), 2U);
    const auto in_int8 = std::ranges::count(found.layers, "int8", &TunedLayer::precision);
    EXPECT_EQ(in_int8 > 0, found.chosen.starts_with("INT8")) << found.chosen;
    ASSERT_GE(found.timed.size(), 2U);
    EXPECT_GT(found.timed[1].speedup.value, 0);
    EXPECT_FALSE(found.text.empty());
    EXPECT_FALSE(found.reasons.empty());
    EXPECT_TRUE(Engine::load(found.engine));
    EXPECT_FALSE(std::filesystem::exists(folder / "best.engine.journal"));
    EXPECT_TRUE(std::filesystem::exists(request.results));
    EXPECT_THAT(found.document, HasSubstr("\"kind\": \"tune\""));
}

/// Stopped, it keeps what it knows, and the same call goes on.
TEST(Tune, InterruptedItGoesOn) {
    class After final : public Progress {
    public:
        bool cancelled() const override { return trials >= 1; }
        std::size_t trials = 0;
    } progress;
    const test::TemporaryFolder folder;
    TuneRequest request = quick(folder);
    request.progress = &progress;
    request.tried = [&](const TuneTrial&, bool) { ++progress.trials; };
    const auto stopped = tune(request);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_THAT(stopped.error().hint, HasSubstr("the same command goes on"));
    EXPECT_TRUE(Engine::load(request.output)) << "the best so far";
    ASSERT_TRUE(std::filesystem::exists(folder / "best.engine.journal"));

    request.progress = nullptr;
    std::string lines;
    request.tell = [&](std::string_view line) { lines += std::string(line) + "\n"; };
    TuneRequest other = request;
    other.slack = 0.1;
    const auto refused = tune(other);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::mismatch) << refused.error().describe();
    ASSERT_TRUE(tune(request));
    EXPECT_THAT(lines, HasSubstr("going on after 1 trials"));
}

TEST(Tune, SaysWhatIsWrong) {
    const test::TemporaryFolder folder;
    const auto code = [&](auto change) {
        TuneRequest request = quick(folder);
        change(request);
        const auto found = tune(request);
        return found ? ErrorCode::cancelled : found.error().code;
    };
    using Wrong = TuneRequest;
    EXPECT_EQ(code([](Wrong& r) { r.model = "none.onnx"; }), ErrorCode::not_found);
    EXPECT_EQ(code([](Wrong& r) { r.model.clear(); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.data = "nowhere"; }), ErrorCode::not_found);
    EXPECT_EQ(code([](Wrong& r) { r.judge = "nowhere"; }), ErrorCode::not_found);
    EXPECT_EQ(code([](Wrong& r) { r.output.clear(); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.metric = "beauty"; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.metric = "top1"; }), ErrorCode::invalid_argument) << "no labels";
    EXPECT_EQ(code([](Wrong& r) { r.device = "abacus"; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.slack = 0.6; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.max_drop = -1; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.effort = 4; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](Wrong& r) { r.samples = 1; }), ErrorCode::invalid_argument) << "too few to search and to judge";
    std::ofstream(folder / "s.json") << R"({"kind": "sensitivity", "layers": [{"mean_kl": 1}]})";
    EXPECT_EQ(code([&](Wrong& r) { r.sensitivity = folder / "s.json"; }), ErrorCode::parse_error);
    std::ofstream(folder / "l.json") << "[1]";
    EXPECT_EQ(code([&](Wrong& r) { r.sensitivity = folder / "l.json"; }), ErrorCode::parse_error);
    std::filesystem::copy_file(tune_data / "small.onnx", folder / "m.onnx");
    EXPECT_EQ(code([&](Wrong& r) { r.model = r.output = folder / "m.onnx"; }), ErrorCode::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(folder / "best.engine"));
}

} // namespace
} // namespace lathe
