// Old calibration caches and logs of trtexec through the program: quantize, calibrate, convert-ranges, trtexec-log,
// report.

#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using test::Workspace;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string log_file(const std::string& name) { return "'" + test::source_path("tests/bench/logs/") + name + "'"; }

TEST(TensorrtFiles, ACacheThereAndBackGivesTheSameGraph) {
    const Workspace work;
    work.make_simple();
    const auto calibrated =
        work.good("calibrate s.onnx --data arrays.npy --method minmax --format tensorrt-cache --tensorrt 8.6.1");
    EXPECT_THAT(calibrated.output, HasSubstr("s.cache"));
    const std::string cache = work.read("s.cache");
    EXPECT_THAT(cache, StartsWith("TRT-8601-EntropyCalibration2\ninput: "));
    EXPECT_THAT(cache, HasSubstr("\nscores: ")); // also what no Lathe target would quantise
    // The target follows from the file.
    const Json from_cache = work.good_json("quantize s.onnx --ranges s.cache -o from_cache.onnx");
    EXPECT_EQ(from_cache.at("target"), "tensorrt");
    EXPECT_EQ(from_cache.at("method"), "given");
    EXPECT_EQ(from_cache.at("quantized_nodes"), 2); // the head is too small
    EXPECT_TRUE(from_cache.at("missing_ranges").empty());
    EXPECT_TRUE(from_cache.at("given").at("unknown").empty());
    // As JSON of dynamic ranges, the same.
    (void)work.good("convert-ranges s.cache --format dynamic-ranges");
    (void)work.good("quantize s.onnx --ranges s.json --target tensorrt -o from_json.onnx");
    const auto cached = load_onnx(work.path("from_cache.onnx"));
    const auto listed = load_onnx(work.path("from_json.onnx"));
    (void)work.good("calibrate s.onnx --data arrays.npy --method minmax -o s.ranges");
    (void)work.good("quantize s.onnx --ranges s.ranges --target tensorrt -o direct.onnx");
    const auto direct = load_onnx(work.path("direct.onnx"));
    ASSERT_TRUE(cached && listed && direct);
    std::size_t scales = 0;
    for (const auto& [name, tensor] : direct->graph.initializers) {
        ASSERT_NE(cached->graph.initializer(name), nullptr) << name;
        ASSERT_NE(listed->graph.initializer(name), nullptr) << name;
        if (!name.ends_with("_scale")) continue;
        ++scales;
        const auto wanted = tensor.to_floats();
        for (const Model* model : {&*cached, &*listed}) {
            const auto got = model->graph.initializer(name)->to_floats();
            ASSERT_EQ(got.size(), wanted.size());
            for (std::size_t i = 0; i < got.size(); ++i)
                EXPECT_FLOAT_EQ(got[i], wanted[i]) << name;
        }
    }
    EXPECT_GE(scales, 4U);
}

TEST(TensorrtFiles, NamesThatDoNotMatchAreListed) {
    const Workspace work;
    work.make_simple();
    (void)work.good("calibrate s.onnx --data arrays.npy --format tensorrt-cache -o s.cache");
    std::string cache = work.read("s.cache");
    cache.replace(cache.find("input"), 5, "Input");
    work.write("other.cache", cache);
    const auto result = work.good("quantize s.onnx --ranges other.cache -o q.onnx");
    EXPECT_THAT(result.errors, HasSubstr("Input (line 2); is input meant?"));
    EXPECT_THAT(result.errors, HasSubstr("input, read by first"));
    EXPECT_THAT(result.output, HasSubstr("1 of 3"));
    // By hand.
    const auto by_hand = work.good("quantize s.onnx --ranges other.cache --range input=-1,1 -o q.onnx");
    EXPECT_THAT(by_hand.output, HasSubstr("2 of 3"));
    work.write("none.cache", "TRT-8601-EntropyCalibration2\nScores: 3c010a14\n");
    const auto none = work.lathe("quantize s.onnx --ranges none.cache -o none.onnx");
    EXPECT_EQ(none.exit_code, 3);
    EXPECT_THAT(none.errors, HasSubstr("Scores (the model has scores)"));
    EXPECT_FALSE(std::filesystem::exists(work.path("none.onnx")));
    work.write("broken.cache", "TRT-8601-EntropyCalibration2\ninput: 3c010a14\nsecond 3c\n");
    const auto broken = work.lathe("quantize s.onnx --ranges broken.cache -o none.onnx");
    EXPECT_EQ(broken.exit_code, 3);
    EXPECT_THAT(broken.errors, HasSubstr("broken.cache, line 3"));
}

TEST(TensorrtFiles, WhatACacheCannotServeIsSaid) {
    const Workspace work;
    work.make_ranges();
    const auto converted = work.good("convert-ranges s.ranges --tensorrt 8.6.1 -o s.cache");
    EXPECT_THAT(converted.errors, HasSubstr("--format tensorrt-cache writes all"));
    EXPECT_EQ(work.lathe("convert-ranges s.ranges --tensorrt 11.0.0 -o x.cache").exit_code, 2);
    EXPECT_EQ(work.lathe("quantize s.onnx --ranges s.cache --method entropy -o q.onnx").exit_code, 2);
    const auto effort = work.lathe("quantize s.onnx --ranges s.cache --effort 2 --data arrays.npy -o q.onnx");
    EXPECT_EQ(effort.exit_code, 2);
    EXPECT_THAT(effort.errors, HasSubstr("--effort 1"));
    work.save_array("more.npy", {40, 3, 8, 8}); // correcting wants 32
    const Json corrected = work.good_json("quantize s.onnx --ranges s.cache --effort 1 --data more.npy -o q.onnx");
    EXPECT_TRUE(corrected.contains("corrections"));
}

TEST(TensorrtFiles, LogsBecomeATableAndAReport) {
    const Workspace work;
    const auto table = work.good("trtexec-log " + log_file("trt800_fp16.log") + " " +
                                 log_file("trt861_int8_made_up_scales.log") + " -o logs.json");
    EXPECT_THAT(table.output, HasSubstr("Quadro T1000"));
    EXPECT_THAT(table.output, HasSubstr("8.6.1"));
    EXPECT_THAT(table.errors, HasSubstr("the scales are made up"));
    EXPECT_THAT(work.good("trtexec-log --verbose " + log_file("trt800_fp16.log")).output,
                HasSubstr("timingCacheMode: local"));
    const Json document = work.json("logs.json");
    EXPECT_EQ(document.at("kind"), "bench");
    const auto both = work.good_json("trtexec-log " + log_file("two_runs_one_failed.log"));
    EXPECT_EQ(both.at("unavailable").size(), 1U);
    const auto failed = work.lathe("trtexec-log " + log_file("failed.log"));
    EXPECT_EQ(failed.exit_code, 3);
    EXPECT_THAT(failed.errors, HasSubstr("While parsing node number 3"));
    const auto broken = work.lathe("trtexec-log " + log_file("broken_cut_off_in_a_line.log"));
    EXPECT_EQ(broken.exit_code, 3);
    EXPECT_THAT(broken.errors, HasSubstr("line 83"));

    // Side by side with a benchmark of Lathe.
    work.make_engine();
    work.write("bench.json", work.good("bench m.engine --batch-sizes 1 --time-limit 1 --duration 0 --json").output);
    (void)work.good("report logs.json bench.json -o report.html");
    const std::string html = work.read("report.html");
    for (const char* text : {"squeeze fp32+fp16", "resnet50 fp32+int8", "m.engine"})
        EXPECT_THAT(html, HasSubstr(text));
    EXPECT_THAT(work.lathe("report bench.json bench.json -o twice.html").errors, HasSubstr("separate runs"));
}

} // namespace
} // namespace lathe
