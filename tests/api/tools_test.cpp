// doctor, evaluate_task, plan_prices, profile_data, ranges, try_plan and trtexec's logs, as programs that link
// liblathe.so call them.
#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/bench.hpp>
#include <lathe/doctor.hpp>
#include <lathe/engine.hpp>
#include <lathe/evaluate_task.hpp>
#include <lathe/lengths.hpp>
#include <lathe/model.hpp>
#include <lathe/plan.hpp>
#include <lathe/ranges.hpp>
#include <lathe/simplify.hpp>
#include <lathe/trtexec.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path small_network = test::build_path("tests/api/data/small.onnx");
const std::filesystem::path samples = test::build_path("tests/api/data/data.npy");

void write_file(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

std::string read(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

TEST(Doctor, TellsOfTheProcessorAndEveryBackend) {
    const DoctorReport report = doctor();
    EXPECT_TRUE(report.any_backend());
    EXPECT_GE(report.cores, 1U);
    for (const BackendState& backend : report.backends) {
        EXPECT_FALSE(backend.device.empty());
        EXPECT_EQ(backend.available, backend.cause.empty()) << backend.name << ": " << backend.cause;
    }
    EXPECT_TRUE(std::ranges::any_of(report.features, [](const auto& each) { return each.flag == "avx2"; }));
    EXPECT_THAT(report.document, HasSubstr("\"kind\": \"doctor\""));
}

TEST(EvaluateTask, JudgesByTheTaskAndAgainstAReference) {
    const test::TemporaryFolder folder;
    const ModelPtr model = load_model(small_network).value();
    for (const char* name : {"a.engine", "b.engine"})
        ASSERT_TRUE(Engine::build(*model, {}).value().save(folder / name));
    EvaluateTaskRequest request;
    request.engines = {folder / "b.engine"};
    request.reference = folder / "a.engine";
    request.data = samples;
    const EvaluateTaskResult classes = evaluate_task(request).value();
    EXPECT_EQ(classes.task, "classification");
    EXPECT_EQ(classes.samples, 64U);
    ASSERT_EQ(classes.subjects.size(), 2U);
    EXPECT_EQ(classes.subjects[1].reference, "a");
    EXPECT_EQ(classes.subjects[1].against_reference.front().key, "agreement");
    EXPECT_EQ(classes.subjects[1].against_reference.front().value, 1.0);
    EXPECT_LT(classes.subjects[1].against_reference.front().low.value(), 1.0);

    request.task.name = "regression";
    const EvaluateTaskResult numbers = evaluate_task(request).value();
    EXPECT_EQ(numbers.task, "regression");
    ASSERT_FALSE(numbers.subjects[1].figures.empty());
    EXPECT_EQ(numbers.subjects[1].metric()->key, "r2");
    EXPECT_NEAR(numbers.subjects[1].metric()->value.value(), 1.0, 1e-6);
    EXPECT_THAT(numbers.document, HasSubstr("\"task\": \"regression\""));

    request.reference.clear();
    EXPECT_EQ(evaluate_task(request).error().code, ErrorCode::invalid_argument); // neither truth nor reference
    request.engines.clear();
    EXPECT_EQ(evaluate_task(request).error().code, ErrorCode::invalid_argument);
}

TEST(EvaluateTask, ABadEngineIsToldBeforeBadData) {
    const test::TemporaryFolder folder;
    write_file(folder / "bad.engine", "no engine at all");
    std::filesystem::create_directories(folder / "data");
    write_file(folder / "data/annotations.json", R"({"images": [{"id": "not a number"}], "annotations": 7})");
    EvaluateTaskRequest request;
    request.engines = {folder / "bad.engine"};
    request.data = folder / "data";
    EXPECT_THAT(evaluate_task(request).error().describe(), HasSubstr("bad.engine"));
    request.engines = {folder / "none.engine"};
    EXPECT_EQ(evaluate_task(request).error().code, ErrorCode::not_found);
    EXPECT_THAT(evaluate_task(request).error().describe(), HasSubstr("none.engine"));
}

TEST(Ranges, OfEveryTensorGoToOtherToolsAndBetweenThem) {
    const test::TemporaryFolder folder;
    const ModelPtr model = load_model(small_network).value();
    ASSERT_TRUE(simplify(*model));
    const Calibration some = Calibration::run(*model, samples).value();
    const Calibration all = calibrate_every_tensor(*model, samples).value();
    EXPECT_GT(all.tensors().size(), some.tensors().size());
    EXPECT_EQ(all.convergence(), nullptr);

    ASSERT_TRUE(write_ranges(all, folder / "m.cache"));
    EXPECT_TRUE(read(folder / "m.cache").starts_with("TRT-100300-EntropyCalibration2\n"));
    const ConvertRangesResult converted =
        convert_ranges({folder / "m.cache", {}, {.form = RangesForm::dynamic_ranges}}).value();
    EXPECT_EQ(converted.output, folder / "m.json");
    EXPECT_EQ(converted.tensors, all.tensors().size());
    EXPECT_FALSE(converted.ours);
    EXPECT_TRUE(read(folder / "m.json").starts_with("{"));

    EXPECT_EQ(write_ranges(all, folder / "x.cache", {.tensorrt = "11.0"}).error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(folder / "x.cache"));
    EXPECT_EQ(convert_ranges({folder / "m.json", folder / "m.json"}).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(convert_ranges({folder / "none.ranges"}).error().code, ErrorCode::not_found);
}

TEST(ProfileData, WantsATokenizerAndSensibleNumbers) {
    EXPECT_EQ(profile_data({.model = small_network, .data = "texts.tsv"}).error().code, ErrorCode::unsupported);
    EXPECT_EQ(profile_data({.model = small_network, .data = "texts.tsv", .buckets = 9}).error().code,
              ErrorCode::invalid_argument);
    EXPECT_EQ(profile_data({.model = small_network, .data = "texts.tsv", .batch_size = 0}).error().code,
              ErrorCode::invalid_argument);
}

TEST(TrtexecLogs, FiguresSettingsAndWhatIsMissing) {
    const std::filesystem::path logs = test::source_path("tests/bench/logs");
    const TrtexecLogs read =
        read_trtexec_logs({{logs / "trt1001_version_compatible.log", logs / "failed.log"}}).value();
    ASSERT_EQ(read.measured.size(), 1U);
    const TrtexecMeasurement& run = read.measured.front();
    EXPECT_EQ(run.version, "10.0.1");
    EXPECT_GT(run.samples_per_second, 0);
    EXPECT_GT(run.median_ms, 0);
    EXPECT_LE(run.min_ms, run.median_ms);
    EXPECT_FALSE(run.settings.empty());
    ASSERT_EQ(read.unavailable.size(), 1U);
    EXPECT_FALSE(read.unavailable.front().cure.empty());
    EXPECT_THAT(read.document, HasSubstr("\"source\": \"trtexec\""));
    EXPECT_EQ(read_trtexec_logs({{logs / "failed.log"}}).error().code, ErrorCode::parse_error);
    EXPECT_EQ(read_trtexec_logs({{logs / "broken_trt7.log"}}).error().code, ErrorCode::parse_error);
    EXPECT_EQ(read_trtexec_logs({}).error().code, ErrorCode::invalid_argument);
}

TEST(Plan, PricesMachinesAndServesAShareHere) {
    const test::TemporaryFolder folder;
    const ModelPtr model = load_model(small_network).value();
    ASSERT_TRUE(Engine::build(*model, {}).value().save(folder / "a.engine"));
    BenchmarkRequest request;
    request.engines = {folder / "a.engine"};
    request.batch_sizes = {1, 4};
    request.duration_s = 0.05;
    request.time_limit_s = 0.2;
    write_file(folder / "bench.json", benchmark(request).value().document);
    write_file(folder / "prices.json",
               R"({"currency": "USD", "machines": [{"name": "small", "per_hour": 0.5, "from": "bench.json"}]})");
    const PricePlanResult priced =
        plan_prices({.prices = folder / "prices.json", .slo = "p99=10s", .rate = "10/s"}).value();
    EXPECT_EQ(priced.currency, "USD");
    ASSERT_EQ(priced.kinds.size(), 1U);
    EXPECT_GT(priced.kinds[0].rate_each, 10);
    ASSERT_TRUE(priced.cheapest);
    EXPECT_THAT(priced.cheapest->counts, ElementsAre(1U));
    EXPECT_EQ(priced.cheapest->per_hour, 0.5);
    EXPECT_FALSE(priced.cheapest->without_one_ms); // none is left
    ASSERT_TRUE(priced.with_spare);
    EXPECT_THAT(priced.with_spare->counts, ElementsAre(2U));
    EXPECT_TRUE(priced.with_spare->without_one_ms);
    EXPECT_EQ(plan_prices({.prices = folder / "prices.json", .slo = "p99=10s", .rate = ""}).error().code,
              ErrorCode::invalid_argument);

    const PlanRequest wanted{.bench = folder / "bench.json", .slo = "p99=10s", .rate = "200/s"};
    const PlanResult found = plan(wanted).value();
    EXPECT_EQ(found.objective, "p99");
    EXPECT_EQ(found.objective_ms, 10'000);
    const PlanTrials trials = try_plan(wanted, found.choice, folder / "a.engine", 0.6).value();
    EXPECT_EQ(trials.from_bench.requests, 120U);
    EXPECT_EQ(trials.from_load.requests, 120U);
    EXPECT_GT(trials.from_load.measured.median_ms, 0);
    EXPECT_GT(trials.from_load.predicted.median_ms, 0);
    EXPECT_FALSE(trials.from_load.p99_reliable);
    write_file(folder / "tried.json", "{\"tried\": " + trials.document + "}");
    PlanRequest served = wanted;
    served.served = folder / "tried.json";
    EXPECT_TRUE(plan(served).value().meets);
    EXPECT_EQ(try_plan(wanted, found.choice, folder / "none.engine", 1).error().code, ErrorCode::not_found);
    EXPECT_EQ(try_plan(wanted, found.choice, folder / "a.engine", 0).error().code, ErrorCode::invalid_argument);
}

} // namespace
} // namespace lathe
