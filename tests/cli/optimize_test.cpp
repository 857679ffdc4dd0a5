// `lathe optimize` end to end: the whole job, again without work, and after an interruption.
#include <algorithm>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

const std::string job = "optimize m.onnx --calibrate arrays.npy --evaluate photos --precisions fp32,int8 --output out "
                        "--against '' --batch-sizes 1 --duration 0.1 --time-limit 0.2 ";

TEST(Optimize, WholeJobThenReused) {
    const Workspace work;
    const Json first = work.good_json(job);
    EXPECT_EQ(first["kind"], "optimize");
    EXPECT_EQ(first["bench"]["latency"].size(), 2U);
    EXPECT_EQ(first["eval"]["subjects"].size(), 2U);
    EXPECT_GT(first["quantization"]["quantized_nodes"], 0);
    for (const char* name : {"m.fp32.engine", "m.int8.engine", "m.simplified.onnx", "m.int8.onnx", "m.ranges",
                             "report.json", "report.html", "bench.json", "eval.json"})
        EXPECT_TRUE(std::filesystem::exists(work.path("out/" + std::string(name)))) << name;
    const std::string engine = work.read("out/m.int8.engine");

    const CommandResult again = work.good(job);
    EXPECT_THAT(again.output, HasSubstr("reused"));
    const Json report = work.json("out/report.json");
    for (const Json& stage : report["stages"])
        EXPECT_TRUE(stage["reused"]) << stage.dump();
    EXPECT_EQ(work.read("out/m.int8.engine"), engine);
    EXPECT_EQ(report["verdict"]["recommended"], first["verdict"]["recommended"]);

    // Other data: what depends on it is done anew, and no more.
    work.save_array("other.npy", {9, 3, 8, 8});
    std::string changed = job;
    changed.replace(changed.find("arrays.npy"), 10, "other.npy");
    const Json other = work.good_json(changed);
    for (const Json& stage : other["stages"]) {
        const std::string name = stage["name"];
        if (name == "simplify" || name == "build fp32" || name == "calibrate") {
            EXPECT_EQ(stage["reused"], name != "calibrate") << stage.dump();
        }
    }
}

// A recurrent network is hardly INT8: most of it stays in float.
TEST(Optimize, TimesIntegersBesideBfloat16) {
    const Workspace work;
    constexpr std::size_t hidden = 256;
    Model model = model_from_text("opset 14\ninput %x: float32[N, 20, 256]\n%t = Transpose(%x) {perm = [1, 0, 2]}\n"
                                  "%m = MatMul(%t, %first)\n%h, %last = GRU(%m, %w, %r) {hidden_size = 256}\n"
                                  "%s = Squeeze(%last, %nought)\n%y = MatMul(%s, %second)\noutput %y: float32[N, 256]\n"
                                  "const %nought: int64[1] = {0}\n");
    std::uint32_t state = 1;
    const auto weights = [&](const std::string& name, Shape shape) {
        std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
        for (float& value : values) {
            state = state * 1664525U + 1013904223U;
            value = (static_cast<float>(state >> 8) / 16777216.0F - 0.5F) / 8;
        }
        model.graph.initializers.insert_or_assign(name, Tensor::of<float>(name, DataType::float32, shape, values));
    };
    weights("first", {hidden, hidden});
    weights("second", {hidden, hidden});
    weights("w", {1, 3 * hidden, hidden});
    weights("r", {1, 3 * hidden, hidden});
    work.save(model, "m.onnx");
    work.save_array("rows.npy", {32, 20, 256});
    const std::string whole = "optimize m.onnx --calibrate rows.npy --output out --against '' --batch-sizes 1 "
                              "--duration 0.05 --time-limit 0.1 ";
    const Json result = work.good_json(whole);
    const auto timed =
        std::ranges::find_if(result["stages"], [](const Json& each) { return each["name"] == "time int8-bf16"; });
    if (!std::filesystem::exists(work.path("out/m.bf16.engine"))) {
        EXPECT_TRUE(timed == result["stages"].end()) << "this processor computes no BF16";
        return;
    }
    ASSERT_TRUE(timed != result["stages"].end());
    const auto measured = std::ranges::count_if(result["bench"]["subjects"],
                                                [](const Json& each) { return each["name"] == "m.int8-bf16"; });
    EXPECT_EQ(measured == 1, std::filesystem::exists(work.path("out/m.int8-bf16.engine")));
    // Found faster or not, that is not asked again.
    const Json again = work.good_json(whole);
    EXPECT_EQ(again["bench"]["subjects"].size(), result["bench"]["subjects"].size());
    for (const Json& stage : again["stages"])
        EXPECT_TRUE(stage["reused"]) << stage.dump();
}

TEST(Optimize, CorrectsAndChoosesRangesByError) {
    const Workspace work;
    work.save_array("arrays.npy", {64, 3, 8, 8}); // correcting wants 32
    const Json result = work.good_json(job + "--method auto --bias-correction fast");
    EXPECT_EQ(result["calibration"]["method"], "mse") << "what the choice begins with";
    const Json& steps = result["quantization"]["corrections"]["steps"];
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps[0]["method"], "ranges");
    EXPECT_THAT(steps[0]["detail"].get<std::string>(), HasSubstr("scales changed"));
    EXPECT_EQ(steps[1]["method"], "bias-correction");
    EXPECT_EQ(work.page("out/report.html")["quantization"]["corrections"], result["quantization"]["corrections"]);
    const CommandResult unknown = work.lathe(job + "--method abacus");
    EXPECT_EQ(unknown.exit_code, 2);
    EXPECT_THAT(unknown.errors, HasSubstr("abacus"));
}

/// Calibrated on values a thousand times smaller than those it is judged on, INT8 clips nearly all and loses.
TEST(Optimize, AnswersALoss) {
    const Workspace work;
    work.save_array("seen.npy", {64, 3, 8, 8});
    const auto save_small = [&](std::int64_t samples) {
        HostTensor small("input", DataType::float32, {samples, 3, 8, 8});
        const auto values = noise(small.bytes.size() / sizeof(float), 11);
        std::ranges::transform(values, small.as<float>().begin(), [](float value) { return value / 1000; });
        ASSERT_TRUE(write_npy(work.path("small.npy"), small.view()));
    };
    save_small(64); // correcting wants 32
    const std::string loses = "optimize m.onnx --calibrate small.npy --evaluate seen.npy --precisions fp32,int8 "
                              "--noisy-layers int8 --output out --against '' --batch-sizes 1 --duration 0.1 "
                              "--time-limit 0.2 ";
    const Json answered = work.good_json(loses);
    EXPECT_EQ(answered["quantization"]["corrections"]["steps"].back()["method"], "bias-correction");
    ASSERT_TRUE(answered.contains("quantizations")) << answered["verdict"];
    EXPECT_TRUE(answered["quantizations"].contains("int8-effort2"));
    const Json& last = answered["verdict"]["candidates"].back();
    EXPECT_THAT(last["name"].get<std::string>(), HasSubstr(".int8-effort2"));
    EXPECT_NE(last["speed"], "not_measured");
    EXPECT_NE(last["accuracy"], "not_measured");

    EXPECT_FALSE(work.good_json(loses + "--force --no-answer").contains("quantizations"));

    const std::string limited = "--force --answer-limit 0.000001 ";
    const CommandResult late = work.lathe(loses + limited + "--effort 0");
    EXPECT_EQ(late.exit_code, 0) << late.errors;
    EXPECT_THAT(late.errors, HasSubstr("int8-effort2 is left out: correcting it took more than"));
    // By itself a job corrects where that is quick, and does not try again what was too slow.
    EXPECT_THAT(work.good(loses + limited).output, HasSubstr("INT8 is not corrected (--effort 1): it takes more than"));
    const CommandResult again = work.good(loses + "--answer-limit 0.000001");
    EXPECT_THAT(again.output, HasSubstr("INT8 is not corrected (--effort 1): nor was it before"));
    EXPECT_THAT(again.output, HasSubstr("quantize  reused"));

    save_small(9); // too few to correct on: told, and the job goes on
    EXPECT_THAT(work.good(loses).output,
                HasSubstr("INT8 is not corrected (--effort 1): correcting needs at least 32 samples"));
    const CommandResult few = work.lathe(loses + "--effort 0");
    EXPECT_EQ(few.exit_code, 0) << few.errors;
    EXPECT_THAT(few.errors, HasSubstr("int8-effort2 is left out: correcting needs at least 32 samples"));
}

TEST(Optimize, InterruptedGoesOn) {
    const Workspace work;
    bool interrupted = false;
    for (const char* seconds : {"0.3", "0.7", "1.2"}) {
        const CommandResult result = work.lathe(job, std::string("timeout --preserve-status -s INT -k 20 ") + seconds);
        EXPECT_TRUE(result.exit_code == 130 || result.exit_code == 0) << result.exit_code << result.errors;
        if (result.exit_code == 130) {
            interrupted = true;
            EXPECT_THAT(result.errors, HasSubstr("interrupted"));
        }
        // Whatever is there is whole.
        for (const auto& entry : std::filesystem::directory_iterator(work.path("out"))) {
            const std::string name = "out/" + entry.path().filename().string();
            if (name.ends_with(".json")) (void)work.json(name);
            if (name.ends_with(".engine") || name.ends_with(".onnx")) (void)work.good("inspect " + name);
        }
    }
    EXPECT_TRUE(interrupted) << "the job was done before any interruption";
    EXPECT_EQ(work.good_json(job)["eval"]["subjects"].size(), 2U);
}

TEST(Optimize, AFixedBatchIsMeasuredAsItIs) {
    const Workspace work;
    for (const std::int64_t batch : {1, 2}) {
        Model model = tiny_classifier();
        (*model.graph.inputs[0].dims)[0] = Dimension::of(batch);
        work.save(model, "fixed.onnx");
        const std::string fixed = "optimize fixed.onnx --calibrate arrays.npy --evaluate photos --precisions fp32,int8 "
                                  "--output fixed --no-answer --against '' --duration 0.1 --time-limit 0.2";
        EXPECT_THAT(work.good(fixed).output, HasSubstr("batch size is fixed at " + std::to_string(batch)));
        const Json report = work.json("fixed/report.json");
        ASSERT_EQ(report["bench"]["latency"].size(), 2U);
        EXPECT_EQ(report["bench"]["latency"][0]["batch"], batch);
        EXPECT_EQ(report["eval"]["subjects"][0]["samples"], 10);
    }
}

TEST(Optimize, WhatIsQuantisedAlreadyIsMeasuredBesideItsFloats) {
    const Workspace work;
    work.good(job);
    std::filesystem::copy_file(work.path("out/m.int8.onnx"), work.path("given.onnx"));
    std::string given = job;
    given.replace(given.find("m.onnx"), 6, "given.onnx");
    given.replace(given.find("--output out"), 12, "--output given");
    const CommandResult told = work.good(given);
    EXPECT_THAT(told.output, HasSubstr("quantised already"));
    EXPECT_FALSE(std::filesystem::exists(work.path("given/given.ranges"))) << "there is nothing to calibrate";
    const Json report = work.json("given/report.json");
    EXPECT_EQ(report["bench"]["latency"].size(), 2U);
    EXPECT_EQ(report["eval"]["subjects"].size(), 2U);
    EXPECT_FALSE(report.contains("quantization"));
    const auto quantizes = [&](const std::string& engine) {
        return work.good("inspect given/given." + engine).output.find("QuantizeLinear") != std::string::npos;
    };
    EXPECT_TRUE(quantizes("simplified.onnx"));
    EXPECT_FALSE(quantizes("float.onnx"));
    // The floats of what was quantised answer as those that it was made of.
    const Json apart = work.good_json("compare m.onnx given/given.float.onnx --outputs-only --min-sqnr 25 --rtol 1");
    EXPECT_EQ(apart["kind"], "compare");
    EXPECT_THAT(work.good(given).output, HasSubstr("reused"));
}

TEST(Optimize, PreprocessingByName) {
    const Workspace work;
    Model model = tiny_classifier();
    std::erase_if(model.metadata, [](const auto& entry) { return entry.first == "lathe.preprocess"; });
    work.save(model, "plain.onnx");
    const std::string plain =
        "optimize plain.onnx --calibrate photos --precisions fp32,int8 --output plain --against '' "
        "--batch-sizes 1 --duration 0.1 --time-limit 0.2 --preprocess ";
    const Json result = work.good_json(plain + "imagenet-0..1");
    EXPECT_GT(result["quantization"]["quantized_nodes"], 0);
    EXPECT_EQ(work.good_json("inspect plain/plain.int8.engine")["preprocess"]["crop"], Json({8, 8}));
    const CommandResult wrong = work.lathe(plain + "imagnet");
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("imagenet"));
    EXPECT_THAT(work.good("optimize --help").output, HasSubstr("imagenet-0..1"));
}

TEST(Optimize, SaysWhatIsMissing) {
    const Workspace work;
    const CommandResult no_data = work.lathe("optimize m.onnx --output out");
    EXPECT_EQ(no_data.exit_code, 2);
    EXPECT_THAT(no_data.errors, HasSubstr("--calibrate"));
    const CommandResult no_reference = work.lathe("optimize m.onnx --precisions bf16 --output out");
    EXPECT_EQ(no_reference.exit_code, 2);
    EXPECT_THAT(no_reference.errors, HasSubstr("fp32"));
    const CommandResult no_peer = work.lathe("optimize m.onnx --precisions fp32 --against abacus --output out");
    EXPECT_EQ(no_peer.exit_code, 2);
    EXPECT_THAT(no_peer.errors, HasSubstr("abacus"));
    const CommandResult no_axis = work.lathe(job + "--shape input:1x3x8");
    EXPECT_EQ(no_axis.exit_code, 2);
    EXPECT_THAT(no_axis.errors, HasSubstr("has 3 dimensions, the input has 4"));
    EXPECT_FALSE(std::filesystem::exists(work.path("out/m.simplified.onnx"))) << "told before any work";
}

} // namespace
} // namespace lathe::test
