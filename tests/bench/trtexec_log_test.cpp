// Logs of trtexec: the files in logs/, written by hand in the forms that TensorRT 8 to 11 give them.

#include "bench/trtexec_log.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/trtexec_json.hpp"
#include "support/files.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::filesystem::path log_file(const std::string& name) { return test::source_path("tests/bench/logs/" + name); }

Result<std::vector<TrtexecRun>> read(const std::string& name) {
    LATHE_TRY(const std::string text, read_text_file(log_file(name)));
    return parse_trtexec_log(text, name);
}

TrtexecRun only_run(const std::string& name) {
    auto runs = read(name);
    if (!runs || runs->size() != 1) {
        ADD_FAILURE() << name << ": " << (runs ? std::to_string(runs->size()) + " runs" : runs.error().describe());
        return {};
    }
    return std::move(runs->front());
}

std::vector<std::string> remarks_of(const TrtexecRun& run) {
    std::vector<std::string> names;
    for (const TrtexecRemark& remark : run.remarks)
        names.push_back(remark.name);
    return names;
}

struct Good {
    const char* file;
    const char* version;
    const char* precision;
    const char* device;
    std::int64_t batch;
    double qps;
    double median_ms;
    std::vector<std::string> remarks;
};

const std::vector<Good>& good_files() {
    static const std::vector<Good> files{
        {"trt800_fp16.log", "8.0.1", "fp32+fp16", "Quadro T1000", 1, 623.355, 1.60547, {}},
        {"trt825_implicit_batch.log", "8.2.5", "fp32+fp16", "Tesla T4", 16, 17130.5, 1.0172, {}},
        {"trt841_weights_in_fp16.log",
         "8.4.1",
         "fp32+fp16",
         "NVIDIA T1000",
         16,
         439.918,
         2.31874,
         {"fp16_subnormal", "overflow"}},
        {"trt853_enqueue_bound.log",
         "8.5.3",
         "fp32+fp16",
         "NVIDIA L4",
         1,
         1070.66,
         1.0172,
         {"bound_by_enqueue", "unstable"}},
        {"trt861_int8_made_up_scales.log",
         "8.6.1",
         "fp32+int8",
         "NVIDIA L4",
         32,
         140.25,
         7.12,
         {"no_calibrator", "no_int8_scale", "bound_by_copy_in", "few_queries_for_p99", "int8_without_ranges"}},
        {"trt861_short.log", "8.6.1", "fp32", "NVIDIA L4", 1, 1070.66, 1.0172, {"short_run", "few_queries_for_p99"}},
        {"trt930_loaded_engine.log", "9.3.0", "", "NVIDIA A10G", 8, 1070.66, 1.0172, {"engine_of_another_gpu"}},
        {"trt1001_version_compatible.log",
         "10.0.1",
         "fp32+fp16+int8",
         "NVIDIA RTX A2000",
         2,
         645.135,
         1.80034,
         {"unstable"}},
        {"trt1013_three_inputs_other_percentiles.log", "10.13.3", "fp32", "NVIDIA L40S", 4, 2031.02, 0.522955, {}},
        {"trt1100_bf16.log", "11.0.0", "", "NVIDIA GeForce RTX 5070", 1, 3057.58, 0.325206, {}},
        {"trt1030_streams.log",
         "10.3.0",
         "fp32+fp16",
         "NVIDIA A100-SXM4-40GB",
         4,
         1070.66,
         1.0172,
         {"several_streams"}},
        {"trt1013_colours_and_time_stamps.log",
         "10.13.3",
         "fp32+fp16",
         "NVIDIA Jetson AGX Orin",
         1,
         1070.66,
         1.0172,
         {"bound_by_copy_out"}},
        {"trt1110_strongly_typed.log", "11.1.0", "", "NVIDIA L4", 8, 1070.66, 0.8872, {"unstable"}},
        {"unfinished.log", "8.6.1", "fp32", "NVIDIA L4", 1, 1070.66, 1.0172, {"unfinished"}},
    };
    return files;
}

struct Broken {
    const char* file;
    const char* where;
    const char* message;
};

const std::vector<Broken>& broken_files() {
    static const std::vector<Broken> files{
        {"broken_cut_off_in_a_line.log", "line 83", "GPU Compute Time lacks min, max, mean, median"},
        {"broken_throughput.log", "line 79", "Throughput is no number: nan qps"},
        {"broken_trt7.log", "line 8", "TensorRT 7 or older"},
        {"broken_other_program.log", "broken_other_program.log", "no log of trtexec"},
        {"broken_empty.log", "broken_empty.log", "no log of trtexec"},
    };
    return files;
}

/// Read, but without figures.
const std::vector<std::string>& without_summary() {
    static const std::vector<std::string> files{"failed.log", "skip_inference.log", "broken_before_summary.log"};
    return files;
}

TEST(TrtexecLog, EveryGoodFileIsRead) {
    for (const Good& good : good_files()) {
        const TrtexecRun run = only_run(good.file);
        EXPECT_EQ(run.version, good.version) << good.file;
        EXPECT_EQ(run.precision(), good.precision) << good.file;
        EXPECT_EQ(run.section("Device Information").value("Selected Device"), good.device) << good.file;
        EXPECT_EQ(run.batch(), good.batch) << good.file;
        ASSERT_TRUE(run.measured()) << good.file;
        EXPECT_DOUBLE_EQ(*run.throughput_qps, good.qps) << good.file;
        EXPECT_DOUBLE_EQ(run.latency->median, good.median_ms) << good.file;
        EXPECT_EQ(remarks_of(run), good.remarks) << good.file;
        EXPECT_TRUE(run.copy_in && run.copy_out && run.enqueue && run.walltime_s && run.queries) << good.file;
    }
}

TEST(TrtexecLog, BrokenFilesAreRefusedWithTheirLine) {
    for (const Broken& broken : broken_files()) {
        const auto runs = read(broken.file);
        ASSERT_FALSE(runs) << broken.file;
        EXPECT_EQ(runs.error().code, ErrorCode::parse_error);
        EXPECT_THAT(runs.error().describe(), HasSubstr(broken.where)) << broken.file;
        EXPECT_THAT(runs.error().describe(), HasSubstr(broken.message)) << broken.file;
    }
}

TEST(TrtexecLog, NoFileOfTheFolderIsForgotten) {
    std::set<std::string> listed(without_summary().begin(), without_summary().end());
    listed.insert("two_runs_one_failed.log");
    for (const Good& good : good_files())
        listed.insert(good.file);
    for (const Broken& broken : broken_files())
        listed.insert(broken.file);
    std::set<std::string> present;
    for (const auto& entry : std::filesystem::directory_iterator(log_file("")))
        present.insert(entry.path().filename().string());
    EXPECT_EQ(listed, present);
}

TEST(TrtexecLog, PartsPercentilesAndSettings) {
    const TrtexecRun run = only_run("trt853_enqueue_bound.log");
    EXPECT_DOUBLE_EQ(run.copy_in->min, 0.1012);
    EXPECT_DOUBLE_EQ(run.compute->max, 3.1121);
    EXPECT_DOUBLE_EQ(run.copy_out->mean, 0.0186);
    EXPECT_DOUBLE_EQ(run.enqueue->median, 0.9092);
    EXPECT_DOUBLE_EQ(*run.latency->percentile(95), 1.0521);
    EXPECT_FALSE(run.latency->percentile(50));
    EXPECT_DOUBLE_EQ(*run.build_s, 41.5027);
    EXPECT_EQ(*run.queries, 3214U);
    EXPECT_DOUBLE_EQ(*run.warm_up_ms, 200);
    EXPECT_TRUE(run.random_inputs);
    EXPECT_TRUE(*run.passed);
    EXPECT_EQ(run.command, "trtexec --onnx=small.onnx --fp16");
    EXPECT_EQ(run.section("Build Options").value("BuilderOptimizationLevel"), "3");
    EXPECT_EQ(run.section("Reporting Options").value("Percentiles"), "90,95,99");
    EXPECT_EQ(run.section("Inference Options").value("CUDA Graph"), "Disabled");
    ASSERT_EQ(run.inputs.size(), 1U);
    EXPECT_THAT(run.inputs[0].second, ElementsAre(1, 3, 64, 64));
    const auto unstable = std::ranges::find(run.remarks, "unstable", &TrtexecRemark::name);
    EXPECT_THAT(unstable->text, HasSubstr("12.4511%"));
    EXPECT_DOUBLE_EQ(*only_run("trt800_fp16.log").end_to_end->percentile(99), 3.4102);
    const TrtexecRun int8 = only_run("trt861_int8_made_up_scales.log");
    EXPECT_EQ(std::ranges::find(int8.remarks, "no_int8_scale", &TrtexecRemark::name)->count, 2U);
}

TEST(TrtexecLog, SeveralInputsAndPercentilesOfTheUsersChoice) {
    const TrtexecRun run = only_run("trt1013_three_inputs_other_percentiles.log");
    std::vector<std::string> names;
    for (const auto& [name, shape] : run.inputs)
        names.push_back(name);
    EXPECT_THAT(names, ElementsAre("camera", "lidar", "pose"));
    EXPECT_THAT(run.inputs[1].second, ElementsAre(4, 2048, 4));
    EXPECT_FALSE(run.latency->percentile(99));
    EXPECT_DOUBLE_EQ(*run.latency->percentile(50), 0.522955);
    EXPECT_DOUBLE_EQ(*run.compute->percentile(99.9), 0.51318);
    EXPECT_EQ(run.section("Reporting Options").value("Percentiles"), "50,99.9");
    EXPECT_EQ(run.command.find("[b9]"), std::string::npos) << "the build's number is no part of the command";
    // TensorRT 8.4 tells one percentile alone, and its inputs in the order of a hash table.
    const TrtexecRun old = only_run("trt841_weights_in_fp16.log");
    EXPECT_EQ(old.latency->percentiles.size(), 1U);
    EXPECT_DOUBLE_EQ(*old.latency->percentile(99), 2.87438);
    ASSERT_EQ(old.inputs.size(), 2U);
    EXPECT_EQ(old.inputs[0].first, "mask");
}

TEST(TrtexecLog, ARunThatFailedKeepsItsError) {
    const auto runs = read("two_runs_one_failed.log");
    ASSERT_TRUE(runs) << runs.error().describe();
    ASSERT_EQ(runs->size(), 2U);
    EXPECT_TRUE(runs->front().measured());
    EXPECT_FALSE(runs->back().measured());
    EXPECT_FALSE(*runs->back().passed);
    ASSERT_TRUE(runs->back().first_error);
    EXPECT_THAT(runs->back().first_error->text, HasSubstr("While parsing node number 3"));
    for (const std::string& name : without_summary())
        EXPECT_FALSE(only_run(name).measured()) << name;
}

TEST(TrtexecLog, TheDocumentIsABenchmark) {
    std::vector<TrtexecSource> sources;
    for (const char* file : {"trt825_implicit_batch.log", "trt853_enqueue_bound.log", "trt1110_strongly_typed.log",
                             "two_runs_one_failed.log"}) {
        auto runs = read(file);
        ASSERT_TRUE(runs);
        for (TrtexecRun& run : *runs)
            sources.push_back({file, std::move(run)});
    }
    const Json document = trtexec_document(sources, "lathe trtexec-log");
    EXPECT_EQ(document.at("kind"), "bench");
    ASSERT_EQ(document.at("subjects").size(), 4U);
    ASSERT_EQ(document.at("unavailable").size(), 1U);
    EXPECT_THAT(document.at("unavailable")[0].at("reason").get<std::string>(),
                HasSubstr("While parsing node number 3"));
    EXPECT_THAT(document.at("ratios"), IsEmpty());
    std::vector<std::string> names;
    for (const Json& subject : document.at("subjects"))
        names.push_back(subject.at("name"));
    EXPECT_THAT(names, UnorderedElementsAre("old fp32+fp16", "small fp32+fp16", "m.int8", "resnet50 fp32+fp16"));
    // An implicit batch: trtexec counts samples.
    EXPECT_DOUBLE_EQ(document.at("throughput")[0].at("samples_per_second").get<double>(), 17130.5);
    EXPECT_DOUBLE_EQ(document.at("throughput")[0].at("qps").get<double>(), 17130.5 / 16);
    // No transfers, TensorRT 11's default: no copies to tell, and inputs on the device.
    EXPECT_EQ(document.at("throughput")[2].at("inputs"), "device");
    EXPECT_TRUE(document.at("latency")[2].at("copy_in_ms").is_null());
    EXPECT_DOUBLE_EQ(document.at("throughput")[2].at("samples_per_second").get<double>(), 1070.66 * 8);
    EXPECT_DOUBLE_EQ(document.at("latency")[1].at("device_ms").get<double>(), 0.8872);
    EXPECT_DOUBLE_EQ(document.at("subjects")[1].at("trtexec").at("compute").at("percentiles_ms").at("99").get<double>(),
                     0.9702);
}

TEST(TrtexecLog, RowsTellTheFurtherPercentilesAsBenchDoes) {
    auto other = read("trt1013_three_inputs_other_percentiles.log");
    auto usual = read("trt1001_version_compatible.log");
    ASSERT_TRUE(other && usual);
    const Json document =
        trtexec_document({{"a.log", std::move(other->front())}, {"b.log", std::move(usual->front())}}, "");
    const Json& row = document.at("latency")[0];
    EXPECT_TRUE(row.at("p99_ms").is_null()) << "it was not asked for";
    EXPECT_EQ(row.at("percentiles_ms"), (Json{{"50", 0.522955}, {"99.9", 0.636733}}));
    EXPECT_FALSE(document.at("latency")[1].contains("percentiles_ms")) << "90, 95 and 99 have members of their own";
}

TEST(TrtexecLog, CountsThatAreNoneAreLeftOut) {
    for (const char* count : {"-5", "1e300", "nan", "many"}) {
        const auto runs = parse_trtexec_log("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec\n"
                                            "[11/02/2023-10:20:30] [I] === Inference Options ===\n"
                                            "[11/02/2023-10:20:30] [I] Batch: " +
                                                std::string(count) +
                                                "\n[11/02/2023-10:20:30] [I]\n"
                                                "[11/02/2023-10:20:30] [I] Timing trace has " +
                                                count + " queries over 3 s\n",
                                            "made.log");
        ASSERT_TRUE(runs) << count;
        EXPECT_FALSE(runs->front().queries) << count;
        EXPECT_EQ(runs->front().batch(), 1) << count;
    }
}

} // namespace
} // namespace lathe
