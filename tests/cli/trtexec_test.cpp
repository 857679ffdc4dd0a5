// What users of trtexec bring: plans measured through it (a test double of it, tests/bench/stand_in/trtexec), and its
// names of options.
#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using test::Workspace;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Goes before the program: the test double on PATH.
std::string with_stand_in() { return "PATH='" + test::source_path("tests/bench/stand_in") + "':\"$PATH\""; }

Json measured(const Workspace& work, const std::string& arguments) {
    const auto result = work.lathe("bench " + arguments + " --via trtexec --time-limit 0.5 --json", with_stand_in());
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.exit_code == 0 ? Workspace::as_json(result.output) : Json();
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
}

TEST(ViaTrtexec, APlanTakesTurnsWithAnEngine) {
    const Workspace work;
    work.make_engine();
    work.write("x.plan", "ms=0.5\n");
    const Json document =
        measured(work, "m.engine x.plan --batch-sizes 2,4 --duration 0.2 --warmUp 50 --percentile 50,99.9");
    ASSERT_EQ(document.at("subjects").size(), 2U);
    const Json& plan = document.at("subjects")[1];
    EXPECT_EQ(plan.at("kind"), "trtexec");
    EXPECT_EQ(plan.at("load_ms"), 50.0);
    EXPECT_EQ(document.at("libraries").at("tensorrt"), "10.3.0");
    std::string notes;
    for (const Json& note : plan.at("notes"))
        notes += note.get<std::string>() + "\n";
    EXPECT_THAT(notes, AllOf(HasSubstr("a ratio between the two favours trtexec"), HasSubstr("50 ms warm-up")));
    ASSERT_EQ(document.at("latency").size(), 4U);
    for (const Json& row : document.at("latency")) {
        EXPECT_TRUE(row.at("percentiles_ms").contains("99.9"));
        EXPECT_GE(row.at("rounds"), 1);
        if (row.at("subject") != "x") continue;
        // By the queries that were exported: 0.5 to 0.56 ms, 0.1 and 0.02 ms of copies.
        EXPECT_NEAR(row.at("median_ms").get<double>(), 0.65, 1e-9);
        EXPECT_NEAR(row.at("percentiles_ms").at("50").get<double>(), 0.65, 1e-9);
        EXPECT_NEAR(row.at("device_ms").get<double>(), 0.53, 1e-9);
        EXPECT_NEAR(row.at("copy_in_ms").get<double>(), 0.1, 1e-9);
        EXPECT_NEAR(row.at("ci95_ms")[0].get<double>(), 0.65, 0.011); // a step of 0.01 at most
        EXPECT_NEAR(row.at("ci95_ms")[1].get<double>(), 0.65, 0.011);
        EXPECT_GE(row.at("count"), 1000);
    }
    // Turn by turn against the engine, which was named first.
    ASSERT_EQ(document.at("ratios").size(), 2U);
    EXPECT_EQ(document.at("ratios")[0].at("subject"), "x");
    EXPECT_EQ(document.at("ratios")[0].at("reference"), "m");
    for (const Json& row : document.at("throughput")) {
        if (row.at("subject") != "x") continue;
        EXPECT_NEAR(row.at("qps").get<double>(), 2000, 1);
    }
    const std::string calls = work.read("x.plan.calls");
    const auto turns = lines_with(calls, "--exportTimes=");
    ASSERT_FALSE(turns.empty());
    EXPECT_THAT(turns.front(), AllOf(HasSubstr("--shapes=input:2x3x8x8"), HasSubstr("--warmUp=50 "),
                                     HasSubstr("--exposeDMA"), HasSubstr("--useCudaGraph")));
    EXPECT_THAT(turns.back(), HasSubstr("--shapes=input:4x3x8x8"));
    for (const std::string& call : lines_with(calls, "--duration=0.2"))
        EXPECT_THAT(call, Not(HasSubstr("--exposeDMA"))); // throughput, as trtexec measures it
    EXPECT_EQ(lines_with(calls, "--duration=0.2").size(), 2U);

    // And for people.
    const auto table = work.lathe("bench x.plan --via trtexec --time-limit 0.3 --duration 0", with_stand_in());
    EXPECT_THAT(table.output, HasSubstr("0.650"));
    EXPECT_THAT(table.errors, HasSubstr("x: trtexec's time of a query is the GPU's"));
    work.write("bench.json", document.dump());
    (void)work.good("report bench.json -o report.html");
}

TEST(ViaTrtexec, RealInputsAreHandedOver) {
    const Workspace work;
    work.make_engine();
    work.write("x.plan", "");
    (void)measured(work, "m.engine x.plan --batch-sizes 2 --duration 0 --data arrays.npy");
    EXPECT_THAT(work.read("x.plan.calls"), HasSubstr("loaded input " + std::to_string(2 * 3 * 8 * 8 * 4)));
}

TEST(ViaTrtexec, TensorRt11HasOtherDefaults) {
    const Workspace work;
    work.write("x.plan", "version=110100\n");
    const Json document = measured(work, "x.plan --duration 0");
    ASSERT_EQ(document.at("latency").size(), 1U);
    EXPECT_NEAR(document.at("latency")[0].at("copy_in_ms").get<double>(), 0.1, 1e-9);
    EXPECT_THAT(lines_with(work.read("x.plan.calls"), "--exportTimes=").front(),
                AllOf(HasSubstr("--includeDataTransfers"), Not(HasSubstr("--useCudaGraph"))));
}

// TensorRT 8.0 to 8.3 read --duration=0.5 as 0; up to 8.4 the warm-up is among the times.
TEST(ViaTrtexec, TensorRt8HasWholeSecondsAndExportsItsWarmUp) {
    const Workspace work;
    work.write("x.plan", "version=8201\n");
    const Json document = measured(work, "x.plan --duration 0");
    ASSERT_EQ(document.at("latency").size(), 1U);
    EXPECT_LT(document.at("latency")[0].at("max_ms").get<double>(), 1) << "the warm-up's queries take 25";
    EXPECT_THAT(lines_with(work.read("x.plan.calls"), "--exportTimes=").front(), HasSubstr("--duration=1 "));
    work.write("y.plan", "version=100300\n");
    (void)measured(work, "y.plan --duration 0");
    EXPECT_THAT(lines_with(work.read("y.plan.calls"), "--exportTimes=").front(), HasSubstr("--duration=0.5 "));
}

TEST(ViaTrtexec, APlanOfOneBatchSizeIsMeasuredAtThat) {
    const Workspace work;
    work.make_engine();
    work.write("x.plan", "batch=4\n");
    EXPECT_EQ(measured(work, "x.plan --duration 0").at("latency")[0].at("batch"), 4);
    const Json document = measured(work, "m.engine x.plan --batch-sizes 2,4 --duration 0");
    ASSERT_EQ(document.at("latency").size(), 3U);
    ASSERT_EQ(document.at("unavailable").size(), 1U);
    EXPECT_EQ(document.at("unavailable")[0].at("batch"), 2);
    EXPECT_THAT(document.at("unavailable")[0].at("reason").get<std::string>(), HasSubstr("4x3x8x8, not as 2x3x8x8"));
}

TEST(ViaTrtexec, WhatIsWrongIsSaid) {
    const Workspace work;
    work.make_engine();
    work.write("x.plan", "");
    const auto absent = work.lathe("bench x.plan --via trtexec", "PATH=/bin");
    EXPECT_EQ(absent.exit_code, 3);
    EXPECT_THAT(absent.errors, AllOf(HasSubstr("trtexec is not installed"), HasSubstr("/usr/src/tensorrt/bin")));
    EXPECT_EQ(work.lathe("bench x.plan --via /nowhere/trtexec").exit_code, 3);
    work.write("bad.plan", "fail=Error Code 1: Serialization (Serialization assertion failed)\n");
    const auto failed = work.lathe("bench bad.plan --via trtexec", with_stand_in());
    EXPECT_EQ(failed.exit_code, 4);
    EXPECT_THAT(failed.errors, AllOf(HasSubstr("Serialization assertion failed"), HasSubstr("bad.plan")));
    work.write("trtexec-silent", "#!/bin/sh\necho hello\n");
    std::filesystem::permissions(work.path("trtexec-silent"), std::filesystem::perms::owner_all);
    EXPECT_THAT(work.lathe("bench x.plan --via ./trtexec-silent").errors, HasSubstr("no log of trtexec"));

    EXPECT_EQ(Workspace::as_json(work.lathe("doctor --json", with_stand_in()).output).at("trtexec").at("found"), true);
    EXPECT_EQ(Workspace::as_json(work.lathe("doctor --json", "PATH=/bin").output).at("trtexec").at("found"), false);

    EXPECT_EQ(work.lathe("bench m.engine --via trtexec").exit_code, 2);
    EXPECT_EQ(work.lathe("bench x.plan --via polygraphy").exit_code, 2);
    EXPECT_EQ(work.lathe("bench x.plan --via trtexec --against onnxruntime", with_stand_in()).exit_code, 2);
    EXPECT_NE(work.lathe("bench none.plan --via trtexec", with_stand_in()).exit_code, 0);
    EXPECT_NE(work.lathe("bench x.plan").exit_code, 0); // no engine of Lathe's
}

TEST(TrtexecNames, ShapesAndLayersOfABuild) {
    const Workspace work;
    const auto built =
        work.good("build m.onnx --minShapes=input:1x3x8x8 --optShapes=input:2x3x8x8 --maxShapes=input:4x3x8x8 "
                  "--exportLayerInfo=layers.json -o m.engine");
    EXPECT_THAT(built.output, HasSubstr("1x3x8x8..2x3x8x8..4x3x8x8"));
    const Json layers = work.json("layers.json");
    EXPECT_EQ(layers.at("Bindings"), Json::array({"input", "scores"}));
    ASSERT_FALSE(layers.at("Layers").empty());
    EXPECT_FALSE(layers.at("Layers")[0].at("LayerType").get<std::string>().empty());
    EXPECT_THAT(work.good("build m.onnx --optShapes=input:2x3x8x8 -o two.engine").output, HasSubstr("float32 2x3x8x8"));
    for (const char* wrong :
         {"--minShapes=input:1x3x8x8", "--minShapes=input:1x3x8x8 --optShapes=input:2x3x8x8", "--optShapes=2x3x8x8",
          "--optShapes=input:2x3x8x8 --shape input:2x3x8x8", "--optShapes=input:2xax8x8",
          "--minShapes=input:4x3x8x8 --optShapes=input:2x3x8x8 --maxShapes=input:8x3x8x8",
          "--minShapes=input:1x3x8x8,other:1 --optShapes=input:2x3x8x8 --maxShapes=input:4x3x8x8"})
        EXPECT_EQ(work.lathe(std::string("build m.onnx -o no.engine ") + wrong).exit_code, 2) << wrong;
    EXPECT_FALSE(std::filesystem::exists(work.path("no.engine")));
}

TEST(TrtexecNames, TheTimingCacheIsLathesOwnOrRefused) {
    const Workspace work;
    // The CPU's backend times nothing: it says so, and the build goes on.
    for (const char* name : {"--timingCacheFile=times.cache", "--timing-cache times.cache"}) {
        const auto built = work.good(std::string("build m.onnx -o m.engine ") + name);
        EXPECT_THAT(built.errors, HasSubstr("the timing cache times.cache is neither read nor written")) << name;
    }
    EXPECT_FALSE(std::filesystem::exists(work.path("times.cache")));
    EXPECT_THAT(work.good("build m.onnx -o m.engine").errors, Not(HasSubstr("timing cache")));
    // Where a backend takes it or refuses it, it does so for both names alike.
    for (const char* device : {"tensorrt", "cuda"}) {
        const std::string build = std::string("build m.onnx -o x.engine --device ") + device + " --timing";
        const auto theirs = work.lathe(build + "CacheFile=times.cache");
        const auto ours = work.lathe(build + "-cache times.cache");
        EXPECT_EQ(theirs.exit_code, ours.exit_code) << device;
        EXPECT_EQ(theirs.errors, ours.errors) << device;
    }
}

TEST(TrtexecNames, MeasuringRulesAndProfile) {
    const Workspace work;
    work.make_engine();
    const Json document = work.good_json(
        "bench m.engine --batch-sizes 1 --duration 0 --time-limit 5 --warmUp=300 --iterations=700 --percentile=99.9 "
        "--exportProfile=profile.json --exportLayerInfo=layers.json");
    const Json& row = document.at("latency")[0];
    EXPECT_GE(row.at("count"), 700);
    EXPECT_GE(row.at("percentiles_ms").at("99.9"), row.at("p99_ms"));
    const Json profile = work.json("profile.json");
    EXPECT_EQ(profile[0].at("count"), 30);
    double share = 0;
    for (std::size_t i = 1; i < profile.size(); ++i) {
        EXPECT_NEAR(profile[i].at("timeMs").get<double>(), 30 * profile[i].at("averageMs").get<double>(), 1e-6);
        share += profile[i].at("percentage").get<double>();
    }
    EXPECT_NEAR(share, 100, 1e-6);
    EXPECT_FALSE(work.json("layers.json").at("Layers").empty());
    EXPECT_EQ(work.lathe("bench m.engine m.engine --exportProfile=p.json").exit_code, 2);
    EXPECT_EQ(work.lathe("bench m.engine --percentile=101").exit_code, 2);
}

TEST(TrtexecNames, RawInputsGiveWhatArraysGive) {
    const Workspace work;
    work.make_engine();
    work.save_array("some.npy", {3, 3, 8, 8});
    const auto array = read_npy(work.path("some.npy"));
    ASSERT_TRUE(array) << array.error().describe();
    work.write("some.bin", std::string(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size()));
    const Json from_array = work.good_json("run m.engine some.npy --batch-size 3");
    const Json from_bytes = work.good_json("run m.engine --loadInputs=input:some.bin --output raw.npz");
    ASSERT_EQ(from_bytes.at("samples").size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(from_bytes.at("samples")[i].at("top"), from_array.at("samples")[i].at("top")) << i;
    EXPECT_TRUE(std::filesystem::exists(work.path("raw.npz")));
    work.write("short.bin", "abc");
    const auto wrong = work.lathe("run m.engine --loadInputs=input:short.bin");
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("3 bytes"));
    EXPECT_EQ(work.lathe("run m.engine --loadInputs=other:some.bin").exit_code, 2);
    EXPECT_EQ(work.lathe("run m.engine --loadInputs=input:some.bin,other:some.bin").exit_code, 2);
    EXPECT_EQ(work.lathe("run m.engine --loadInputs=input").exit_code, 2);
    EXPECT_EQ(work.lathe("run m.engine --loadInputs=input:none.bin").exit_code, 3);

    // The same for bench, at the number of samples that the bytes are.
    const std::string bench = "bench m.engine --duration 0 --time-limit 0.2 --loadInputs=input:";
    const Json measured = work.good_json(bench + "some.bin");
    EXPECT_EQ(measured.at("inputs"), "input:some.bin");
    ASSERT_EQ(measured.at("latency").size(), 1U);
    EXPECT_EQ(measured.at("latency")[0].at("batch"), 3);
    EXPECT_EQ(work.good_json(bench + "some.bin --batch-sizes 1,2").at("latency").size(), 2U);
    EXPECT_THAT(work.lathe(bench + "short.bin").errors, HasSubstr("3 bytes"));
    EXPECT_THAT(work.lathe(bench + "some.bin --data some.npy").errors, HasSubstr("given twice"));
    EXPECT_THAT(work.good("bench --help").output, HasSubstr("which here is --time-limit"));
}

} // namespace
} // namespace lathe
