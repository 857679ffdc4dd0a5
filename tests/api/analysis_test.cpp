// benchmark, compare_models, inspect, plan and show, as programs that link liblathe.so call them.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/bench.hpp>
#include <lathe/compare.hpp>
#include <lathe/engine.hpp>
#include <lathe/inspect.hpp>
#include <lathe/model.hpp>
#include <lathe/plan.hpp>
#include <lathe/show.hpp>
#include <lathe/simplify.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

const std::filesystem::path small = test::build_path("tests/api/data/small.onnx");

void write_text(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

TEST(Inspect, CountsASmallClassifier) {
    const InspectResult found = inspect(small).value();
    ASSERT_EQ(found.inputs.size(), 1U);
    EXPECT_EQ(found.inputs[0].shape, (Shape{-1, 3, 8, 8}));
    EXPECT_EQ(found.operators.at("Conv"), 1U);
    EXPECT_EQ(found.macs, 8 * 8 * 8 * 27 + 8 * 5);
    EXPECT_TRUE(found.assumed_dimensions);
    EXPECT_EQ(inspect("none.onnx").error().code, ErrorCode::not_found);
}

TEST(CompareModels, SimplifyingChangesNothingAndAnEngineIsItsModel) {
    const test::TemporaryFolder folder;
    const ModelPtr model = load_model(small).value();
    ASSERT_TRUE(simplify(*model));
    ASSERT_TRUE(save_model(*model, folder / "simple.onnx"));
    const CompareModelsResult same = compare_models({.first = small, .second = folder / "simple.onnx"}).value();
    EXPECT_EQ(same.first_past, "");
    EXPECT_TRUE(std::ranges::any_of(same.values, &ComparedValue::output));
    EXPECT_THAT(same.document, HasSubstr("\"equal\": true"));

    ASSERT_TRUE(Engine::build(*model, {}).value().save(folder / "m.engine"));
    CompareModelsRequest request{.first = small, .second = folder / "m.engine", .shapes = {"input:2x3x8x8"}};
    const CompareModelsResult outputs = compare_models(request).value();
    ASSERT_EQ(outputs.values.size(), 1U);
    EXPECT_EQ(outputs.values[0].shape, (Shape{2, 5}));
    EXPECT_EQ(outputs.first_past, "");
    request.shapes = {"nothing:1x2"};
    EXPECT_EQ(compare_models(request).error().code, ErrorCode::invalid_argument);
}

TEST(Benchmark, GivesRowsAndRatiosWhichPlanTakes) {
    const test::TemporaryFolder folder;
    const ModelPtr model = load_model(small).value();
    for (const char* name : {"a.engine", "b.engine"})
        ASSERT_TRUE(Engine::build(*model, {}).value().save(folder / name));
    BenchmarkRequest request;
    request.engines = {folder / "a.engine", folder / "b.engine"};
    request.batch_sizes = {1, 4};
    request.duration_s = 0.05;
    request.time_limit_s = 0.2;
    const BenchmarkResult measured = benchmark(request).value();
    EXPECT_EQ(measured.rows.size(), 4U);
    EXPECT_EQ(measured.ratios.size(), 2U);
    for (const BenchmarkRow& row : measured.rows) {
        EXPECT_GT(row.latency_ms.value, 0);
        EXPECT_EQ(row.kind, "engine");
    }
    write_text(folder / "bench.json", measured.document);

    PlanRequest wanted{.bench = folder / "bench.json", .slo = "p99=10s", .rate = "1/s"};
    const PlanResult found = plan(wanted).value();
    EXPECT_TRUE(found.meets);
    EXPECT_EQ(found.choice.machines, 1U);
    EXPECT_FALSE(found.stages.empty());
    wanted.rate = "";
    EXPECT_EQ(plan(wanted).error().code, ErrorCode::invalid_argument);
    wanted.rate = "1/s";
    wanted.max_utilisation = 1.5;
    EXPECT_EQ(plan(wanted).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(plan({.bench = {}, .slo = "p99=1s", .rate = "1/s"}).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(benchmark({}).error().code, ErrorCode::invalid_argument);
}

TEST(Show, DrawsAModelAndSparesIt) {
    const test::TemporaryFolder folder;
    const ShowResult shown = show({.model = small, .output = folder / "graph.html"}).value();
    EXPECT_EQ(shown.nodes, 7U);
    EXPECT_EQ(shown.timed, 0U);
    std::filesystem::copy_file(small, folder / "m.onnx");
    EXPECT_EQ(show({.model = folder / "m.onnx", .output = folder / "m.onnx"}).error().code,
              ErrorCode::invalid_argument);
    EXPECT_TRUE(load_model(folder / "m.onnx"));
    // Results that speak of none of this model's nodes.
    write_text(folder / "quantize.json",
               R"({"kind": "quantize", "decisions": [{"node": "another", "tensor": "x", "quantized": true}]})");
    EXPECT_EQ(show({.model = small, .output = folder / "g.html", .results = {folder / "quantize.json"}}).error().code,
              ErrorCode::mismatch);
    EXPECT_FALSE(std::filesystem::exists(folder / "g.html"));
}

} // namespace
} // namespace lathe
