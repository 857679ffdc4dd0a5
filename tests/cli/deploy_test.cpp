// `lathe deploy triton`: repositories that parse with Triton's schema and answer their own client.
#include <cstdlib>
#include <sstream>

#include "backends/api/tensorrt_form.hpp"
#include "cli/workspace.hpp"
#include "plan/machines.hpp"
#include "runtime/engine_file.hpp"
#include "support_lib/places.hpp"
#include "support_lib/sections.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

class Deploy : public testing::Test {
protected:
    void SetUp() override {
        work_.make_engine();
        Json bench = bench_document({{1, 2.5}, {2, 3}, {4, 4}, {8, 6}});
        bench["subjects"][1]["file"] = "m.engine";
        work_.write("bench.json", bench.dump());
    }

    /// The lines that check_repository.py prints; a skipped test where it cannot run.
    std::string checked(const std::string& repository, const std::string& pictures = "") {
        const char* python = std::getenv("LATHE_PYTHON");
        if (python == nullptr || *python == '\0') return "SKIPPED: LATHE_PYTHON is not set";
        const CommandResult result =
            run_command("cd '" + work_.path("").string() + "' && '" + python + "' '" +
                        test::source_path("tests/deploy/check_repository.py") + "' " + repository + " " + pictures);
        EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 77) << result.output << result.errors;
        return result.output;
    }
    /// m.engine as if TensorRT had compiled it: another device, and this for its plan.
    void make_tensorrt_engine(const std::string& name, const std::string& plan, const TensorRtOptions& options = {},
                              const std::string& environment = "TensorRT 10.16.0") {
        const auto file = MappedFile::open(work_.path("m.engine"));
        ASSERT_TRUE(file);
        const auto contents = parse_engine((*file)->bytes(), "m.engine");
        ASSERT_TRUE(contents) << contents.error().describe();
        Json info = contents->info;
        info["device"] = info["backend"] = "tensorrt";
        info["blob_key"] = environment;
        TensorRtForm form;
        form.environment = environment;
        form.options = options;
        const std::string compiled = write_tensorrt_form(form, std::as_bytes(std::span(plan))).flat();
        const auto written =
            write_engine(work_.path(name), info,
                         {{"graph.onnx", *contents->section("graph.onnx")}, {"compiled", ByteChain(compiled)}});
        ASSERT_TRUE(written) << written.error().describe();
    }
    Workspace work_;
};

TEST_F(Deploy, ModelsAnswerAsTheirEngines) {
    work_.make_int8_engine();
    work_.good("deploy triton m.engine -o repo --from bench.json");
    work_.good("deploy triton m.engine --name exact.onnx -o repo --from bench.json --backend onnxruntime");
    work_.good("deploy triton q.engine -o repo");
    work_.good("deploy triton q.engine --name q-onnx -o repo --backend onnxruntime --max-queue 64");
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("backend: \"openvino\""));
    EXPECT_EQ(work_.read("repo/m/labels.txt"), "ant\nbee\ncat\ndog\neel\n");
    const std::string lines = checked("repo", "photos/rgb.png photos/420.jpg photos/grey.png");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;

    const auto first_class = [&](const std::string& engine, const std::string& picture) {
        const Json run = work_.good_json("run " + engine + " " + picture);
        const Json& top = run["samples"][0]["top"][0];
        return std::pair(top["name"].get<std::string>(), top["score"].get<double>());
    };
    std::istringstream rows(lines);
    int count = 0;
    for (std::string model, picture, label, score;
         std::getline(rows, model, '\t') && std::getline(rows, picture, '\t') && std::getline(rows, label, '\t') &&
         std::getline(rows, score);
         ++count) {
        const auto [name, value] = first_class(model[0] == 'q' ? "q.engine" : "m.engine", picture);
        EXPECT_EQ(label, name) << model << " " << picture;
        EXPECT_NEAR(std::stod(score), value, 0.02 * std::abs(value) + 1e-3) << model << " " << picture;
    }
    EXPECT_EQ(count, 12) << lines;
}

/// A text classifier of two classes, and the same with one number a text.
Model text_model(bool one_number) {
    Model model = model_from_text(std::string("opset 18\n"
                                              "input %input_ids: int64[N, S]\n"
                                              "input %attention_mask: int64[N, S]\n"
                                              "input %table: float32[64, 16]\n"
                                              "input %f: float32[16, 2]\n"
                                              "const %axes: int64[1] = {1}\n"
                                              "const %last: int64[1] = {2}\n"
                                              "%words = Gather(%table, %input_ids)\n"
                                              "%float = Cast(%attention_mask) {to = 1}\n"
                                              "%wide = Unsqueeze(%float, %last)\n"
                                              "%kept = Mul(%words, %wide)\n"
                                              "%sum = ReduceSum(%kept, %axes) {keepdims = 0}\n"
                                              "%scores = MatMul(%sum, %f)\n") +
                                  (one_number ? "%score = ReduceMax(%scores, %axes) {keepdims = 0}\n"
                                                "output %score: float32[N]\n"
                                              : "output %scores: float32[N, 2]\n"));
    model.graph.inputs.resize(2); // the others become constants
    add_weights(model, "table", {64, 16}, 1);
    add_weights(model, "f", {16, 2}, 2);
    const auto golden = read_json_file(test::tokenizer_file());
    EXPECT_TRUE(golden) << golden.error().describe();
    model.set_metadata("lathe.tokenizer", (*golden)["tokenizer"].dump());
    if (!one_number) model.set_metadata("lathe.labels", R"(["sad","glad"])");
    return model;
}

TEST_F(Deploy, TextsAndFixedSizesAnswerAsTheirEngines) {
    const std::string shapes = "--shape input_ids:1x2..2x8..4x12 --shape attention_mask:1x2..2x8..4x12";
    work_.save(text_model(false), "t.onnx");
    work_.save(text_model(true), "n.onnx");
    work_.good("build t.onnx -o t.engine " + shapes);
    work_.good("build n.onnx -o n.engine " + shapes);
    work_.good("build m.onnx -o two.engine --shape 2x3x8x8");
    for (const char* backend : {"onnxruntime", "openvino"}) {
        const std::string tail = std::string(" -o repo --backend ") + backend;
        work_.good("deploy triton t.engine --name t-" + std::string(backend) + tail);
        work_.good("deploy triton n.engine --name n-" + std::string(backend) + tail);
        work_.good("deploy triton two.engine --name two-" + std::string(backend) + tail);
    }
    EXPECT_THAT(work_.read("repo/t-openvino/config.pbtxt"), HasSubstr("data_type: TYPE_INT64\n  dims: [-1]\n"));
    EXPECT_THAT(work_.read("repo/n-openvino/config.pbtxt"), HasSubstr("dims: [1]\n  reshape {\n  }\n"));
    EXPECT_THAT(work_.read("repo/two-onnxruntime/config.pbtxt"), HasSubstr("max_batch_size: 0\n"));
    EXPECT_EQ(work_.json("repo/t-openvino/model.json")["tokenizer"],
              (Json{{"file", "tokenizer.json"}, {"pad_id", 0}, {"min_length", 2}, {"max_length", 12}}));
    EXPECT_TRUE(work_.json("repo/two-openvino/model.json")["tokenizer"].is_null());
    const std::string long_text = "the film the film the film the film the film the film the film";
    const std::string lines =
        checked("repo", "'--text=the quiet FILMS' '--text=a moving film' '--text=" + long_text + "'");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
    EXPECT_THAT(lines, HasSubstr("two-onnxruntime\tscores (2, 5): [["));
    EXPECT_THAT(lines, HasSubstr("two-openvino\tscores (2, 5): [["));

    const Json classes = work_.good_json("run t.engine --text 'the quiet FILMS' --text 'a moving film' --text '" +
                                         long_text + "'")["samples"];
    std::istringstream rows(lines);
    int count = 0;
    for (std::string row; std::getline(rows, row);) {
        std::istringstream cells(row);
        std::string model, text, label, score;
        std::getline(cells, model, '\t');
        std::getline(cells, text, '\t');
        std::getline(cells, label, '\t');
        std::getline(cells, score, '\t');
        if (!model.starts_with("t-")) continue;
        const Json& top = classes[static_cast<std::size_t>(count++ % 3)]["top"][0];
        EXPECT_EQ(label, top["name"]) << row;
        EXPECT_NEAR(std::stod(score), top["score"].get<double>(), 2e-2) << row;
    }
    EXPECT_EQ(count, 6) << lines;
}

TEST_F(Deploy, AnEngineWithoutATokenizerFileTakesArrays) {
    Model model = text_model(false);
    Json stored = Json::parse(*model.find_metadata("lathe.tokenizer"));
    stored.erase("huggingface");
    model.set_metadata("lathe.tokenizer", stored.dump());
    work_.save(model, "old.onnx");
    work_.good("build old.onnx -o old.engine --shape input_ids:1x8..2x8..4x8 --shape attention_mask:1x8..2x8..4x8");
    const CommandResult result = work_.good("deploy triton old.engine -o repo");
    EXPECT_THAT(result.errors, HasSubstr("takes arrays alone"));
    EXPECT_TRUE(work_.json("repo/old/model.json")["tokenizer"].is_null());
    EXPECT_FALSE(std::filesystem::exists(work_.path("repo/old/tokenizer.json")));
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr || *python == '\0') GTEST_SKIP() << "SKIPPED: LATHE_PYTHON is not set";
    const CommandResult refused =
        run_command("'" + std::string(python) + "' '" + work_.path("repo/old/client.py").string() + "' --text film");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("came without a tokenizer.json"));
}

TEST_F(Deploy, IsSizedForAnObjective) {
    const Json sized = work_.good_json(
        "deploy triton m.engine -o repo --from bench.json --slo p99=40ms --rate 500/s --backend onnxruntime");
    EXPECT_GE(sized["models"][0]["max_batch_size"], 2);
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("lathe plan's simulation for p99"));
    work_.write("m.plan", "not loaded here");
    work_.good("deploy triton m.engine --name rt -o repo --from bench.json --plan m.plan");
    EXPECT_EQ(work_.read("repo/rt/1/model.plan"), "not loaded here");
    EXPECT_THAT(work_.read("repo/rt/config.pbtxt"), HasSubstr("KIND_GPU"));
    const std::string lines = checked("repo");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
}

TEST_F(Deploy, TakesThePlanOutOfATensorRtEngine) {
    make_tensorrt_engine("a.engine", "plan of a");
    TensorRtOptions compatible;
    compatible.version_compatible = true;
    make_tensorrt_engine("b.engine", "plan of b", compatible);
    const Json both = work_.good_json("deploy triton a.engine b.engine --name first --name second -o repo");
    EXPECT_EQ(both["models"][0]["backend"], "tensorrt");
    EXPECT_EQ(both["models"][0]["version_compatible"], false);
    EXPECT_EQ(both["models"][1]["version_compatible"], true);
    EXPECT_EQ(work_.read("repo/first/1/model.plan"), "plan of a");
    EXPECT_EQ(work_.read("repo/second/1/model.plan"), "plan of b");
    EXPECT_THAT(work_.read("repo/first/config.pbtxt"), HasSubstr("KIND_GPU"));
    const CommandResult again = work_.good("deploy triton b.engine -o again");
    EXPECT_THAT(again.output, HasSubstr("TensorRT 10.16.0 or later"));
    EXPECT_THAT(again.output, HasSubstr("--backend-config=tensorrt,version-compatible=true"));
    // Another backend is a choice of the user's, who is told what it means; a plan from elsewhere too.
    const CommandResult other = work_.good("deploy triton a.engine -o onnx --backend onnxruntime");
    EXPECT_THAT(other.errors, HasSubstr("not with TensorRT"));
    EXPECT_TRUE(std::filesystem::exists(work_.path("onnx/a/1/model.onnx")));
    work_.write("m.plan", "of trtexec");
    work_.good("deploy triton a.engine -o given --plan m.plan");
    EXPECT_EQ(work_.read("given/a/1/model.plan"), "of trtexec");
    const std::string lines = checked("repo");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
}

TEST_F(Deploy, PlansThatTritonDoesNotLoadAreRefused) {
    TensorRtOptions stripped;
    stripped.strip_weights = true;
    make_tensorrt_engine("stripped.engine", "no weights", stripped);
    make_tensorrt_engine("rtx.engine", "plan", {}, "TensorRT-RTX 1.7.1");
    make_tensorrt_engine("damaged.engine", "");
    for (const auto& [engine, why] :
         {std::pair("stripped.engine", "without --strip-weights"), std::pair("rtx.engine", "--backend onnxruntime"),
          std::pair("damaged.engine", "cut off")}) {
        const CommandResult result = work_.lathe(std::string("deploy triton ") + engine + " -o repo");
        EXPECT_NE(result.exit_code, 0) << engine;
        EXPECT_THAT(result.errors, HasSubstr(why));
        EXPECT_FALSE(std::filesystem::exists(work_.path("repo"))) << "nothing was written";
    }
    const CommandResult both = work_.lathe("deploy triton m.engine -o repo --backend onnxruntime --plan m.onnx");
    EXPECT_EQ(both.exit_code, 2);
    EXPECT_THAT(both.errors, HasSubstr("--plan"));
    work_.good("deploy triton rtx.engine -o repo --backend onnxruntime");
}

TEST_F(Deploy, OfSeveralProfilesTritonTakesTheFirst) {
    make_tensorrt_engine("p.engine", "plan");
    const auto file = MappedFile::open(work_.path("p.engine"));
    ASSERT_TRUE(file);
    const auto contents = parse_engine((*file)->bytes(), "p.engine");
    ASSERT_TRUE(contents);
    Json info = contents->info;
    const auto range = [](int batch) { return Json::array({batch, 3, 8, 8}); };
    info["profiles"] = Json::array();
    for (const int batch : {4, 32})
        info["profiles"].push_back({{"input", {{"min", range(1)}, {"opt", range(batch)}, {"max", range(batch)}}}});
    ASSERT_TRUE(write_engine(work_.path("two.engine"), info, again(contents->sections)));
    EXPECT_EQ(work_.good_json("deploy triton p.engine -o repo")["models"][0]["max_batch_size"], 32);
    EXPECT_EQ(work_.good_json("deploy triton two.engine -o repo")["models"][0]["max_batch_size"], 4);
}

TEST_F(Deploy, SaysHowItWasSizedOrThatItWasNot) {
    Json bench = work_.json("bench.json");
    bench["throughput"].push_back({{"subject", "int8"},
                                   {"batch", 8},
                                   {"streams", 2},
                                   {"qps", 300.0},
                                   {"trials", {{{"streams", 1}, {"qps", 160.0}}, {{"streams", 2}, {"qps", 300.0}}}}});
    work_.write("bench.json", bench.dump());
    const CommandResult sized = work_.good("deploy triton m.engine -o repo --from bench.json --backend onnxruntime");
    EXPECT_THAT(sized.output, HasSubstr("2 instances"));
    EXPECT_THAT(sized.output, HasSubstr("within 5 % of the most samples/s at batches of 8 (1280 with 1, 2400 with 2"));
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("instance_group {\n  count: 2\n"));
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("intra_op_thread_count"));

    const CommandResult unsized = work_.good("deploy triton m.engine --name other -o repo --json");
    const Json model = Workspace::as_json(unsized.output)["models"][0];
    EXPECT_EQ(model["sized"], false);
    EXPECT_EQ(model["instances"], 1);
    EXPECT_THAT(model["reason"].get<std::string>(), HasSubstr("Not sized"));
    EXPECT_THAT(unsized.errors, HasSubstr("not sized by measurements"));
}

TEST_F(Deploy, RefusesAndLeavesNothing) {
    const auto refused = [&](const std::string& arguments, int code, const std::string& why) {
        const CommandResult result = work_.lathe("deploy " + arguments);
        EXPECT_EQ(result.exit_code, code) << arguments;
        EXPECT_THAT(result.errors, HasSubstr(why)) << arguments;
    };
    refused("triton m.onnx -o repo", 2, "no Lathe engine");
    refused("triton none.engine -o repo", 3, "none.engine");
    refused("kubernetes m.engine -o repo", 2, "triton");
    refused("triton m.engine -o repo --name a/b", 2, "no name for a model");
    refused("triton m.engine -o repo --backend tensorrt", 2, "--plan");
    refused("triton m.engine -o repo --slo p99=1ms", 2, "--rate");
    refused("triton m.engine -o repo --from bench.json --slo p99=1ms --rate 100/s", 5, "lathe plan");
    refused("triton m.engine -o repo --pictures", 2, "add --backend lathe");
    refused("triton m.engine -o repo --texts", 2, "add --backend lathe");
    refused("triton m.engine -o repo --texts --backend lathe", 2, "carries its tokenizer");
    refused("triton m.engine -o repo --texts --pictures", 2, "--pictures");
    refused("triton m.engine -o repo --copy-backend backends", 2, "no model here is for Lathe's backend");
    work_.make_int8_engine();
    refused("triton q.engine -o repo --from bench.json", 3, "has not measured q.engine");
    EXPECT_FALSE(std::filesystem::exists(work_.path("repo"))) << "nothing was written";
    work_.good("deploy triton m.engine -o repo");
    refused("triton m.engine -o repo", 2, "exists");
    for (const auto& entry : std::filesystem::directory_iterator(work_.path("repo")))
        EXPECT_EQ(entry.path().filename(), "m");
}

} // namespace
} // namespace lathe::test
