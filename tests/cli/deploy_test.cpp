// `lathe deploy triton`: repositories that parse with Triton's schema and answer their own client.
#include <cstdlib>
#include <sstream>

#include "cli/workspace.hpp"
#include "plan/machines.hpp"

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
            run_command("cd '" + work_.path("").string() + "' && '" + python + "' '" + LATHE_SOURCE_DIR +
                        "/tests/deploy/check_repository.py' " + repository + " " + pictures);
        EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 77) << result.output << result.errors;
        return result.output;
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
