// Lathe's backend in a real Triton server: engines of this machine's CPU, asked over HTTP and gRPC.
#include <cstdlib>

#include "backends/decoders.hpp"
#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A text model whose answers do not depend on padding: the states of its own tokens, and their sum.
Model text_model() {
    Model model = model_from_text("opset 18\n"
                                  "input %input_ids: int64[N, S]\n"
                                  "input %attention_mask: int64[N, S]\n"
                                  "input %table: float32[64, 16]\n"
                                  "const %axes: int64[1] = {1}\n"
                                  "const %last: int64[1] = {2}\n"
                                  "%words = Gather(%table, %input_ids)\n"
                                  "%float = Cast(%attention_mask) {to = 1}\n"
                                  "%wide = Unsqueeze(%float, %last)\n"
                                  "%states = Mul(%words, %wide)\n"
                                  "%sum = ReduceSum(%states, %axes) {keepdims = 0}\n"
                                  "%score = ReduceMax(%sum, %axes) {keepdims = 0}\n"
                                  "output %states: float32[N, S, 16]\n"
                                  "output %sum: float32[N, 16]\n"
                                  "output %score: float32[N]\n");
    model.graph.inputs.resize(2); // the table becomes a constant
    add_weights(model, "table", {64, 16}, 1);
    const auto golden = read_json_file(test::tokenizer_file());
    EXPECT_TRUE(golden) << golden.error().describe();
    model.set_metadata("lathe.tokenizer", (*golden)["tokenizer"].dump());
    return model;
}

class TritonServer : public testing::Test {
protected:
    void SetUp() override {
        const char* server = std::getenv("LATHE_TRITON_SERVER");
        python_ = std::getenv("LATHE_PYTHON");
        if (python_ == nullptr || *python_ == '\0') GTEST_SKIP() << "SKIPPED: LATHE_PYTHON is not set";
        if (server == nullptr || *server == '\0')
            GTEST_SKIP() << "SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set";
    }

    void deploy(const std::string& engine, const std::string& options = "") {
        const Json told = work_.good_json("deploy triton " + engine + " -o repo --backend lathe " + options);
        backends_ = told["backend_directory"].get<std::string>();
        EXPECT_EQ(told["models"][0]["backend"], "lathe");
    }
    void deploy_classifier() {
        work_.make_engine();
        deploy("m.engine");
    }
    void deploy_texts(const std::string& options = "") {
        work_.save(text_model(), "t.onnx");
        work_.good("build t.onnx -o t.engine --shape input_ids:1x2..2x8..8x12 --shape attention_mask:1x2..2x8..8x12");
        deploy("t.engine", options);
    }
    void check(const std::string& what, const std::string& program = "check_server.py",
               const std::string& options = "") {
        const CommandResult result = script(program, what + " '" + work_.path("").string() + "' '" + backends_ + "' '" +
                                                         test::lathe_binary() + "' " + options);
        if (result.exit_code == 77) GTEST_SKIP() << result.output;
        EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    }
    CommandResult script(const std::string& name, const std::string& arguments) const {
        return run_command("'" + std::string(python_) + "' '" + test::source_path("tests/triton/") + name + "' " +
                           arguments);
    }

    Workspace work_;
    std::string backends_;
    const char* python_ = nullptr;
};

TEST_F(TritonServer, AnswersAsTheEnginesDo) {
    deploy_classifier();
    deploy_texts();
    work_.make_int8_engine();
    deploy("q.engine");
    work_.good("build m.onnx -o two.engine --shape 2x3x8x8");
    deploy("two.engine");
    EXPECT_THAT(work_.read("repo/t/config.pbtxt"), HasSubstr("allow_ragged_batch: true"));
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("default_model_filename: \"model.engine\""));
    check("answers");
}

TEST_F(TritonServer, AnswersThirtyTwoClientsEachItsOwn) {
    deploy_classifier();
    check("crowd");
}

TEST_F(TritonServer, FillsTextsUpToOneLength) {
    deploy_texts();
    check("texts");
}

TEST_F(TritonServer, RefusesBadRequestsWithTheirCause) {
    deploy_classifier();
    check("bad_requests");
}

TEST_F(TritonServer, LosesNoRequestWhenAModelIsReplaced) {
    deploy_classifier();
    work_.save(tiny_classifier(50), "m2.onnx");
    work_.good("build m2.onnx -o m2.engine");
    deploy("m2.engine");
    check("replaced");
}

TEST_F(TritonServer, AnswersAgainAfterItWasKilled) {
    deploy_classifier();
    check("killed");
}

// What benchmarks/triton_soak.py does with a hundred thousand requests, with a few of them and every kind of fault.
TEST_F(TritonServer, LosesAndCrossesNoRequestWhateverHappens) {
    work_.make_engine();
    const CommandResult result =
        run_command("'" + std::string(python_) + "' '" + test::source_path("benchmarks/triton_soak.py") + "' '" +
                    test::lathe_binary() + "' --engine '" + work_.path("m.engine").string() +
                    "' --requests 6000 --every 0.1 --output '" + work_.path("soak.json").string() + "'");
    if (result.exit_code == 77) GTEST_SKIP() << result.output;
    ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
    const auto soak = read_json_file(work_.path("soak.json"));
    ASSERT_TRUE(soak) << soak.error().describe();
    EXPECT_EQ((*soak)["answered"], 6000);
    EXPECT_GE((*soak)["faults"]["killed"].get<int>(), 1);
    EXPECT_GE((*soak)["faults"]["damaged"].get<int>(), 1);
    EXPECT_THAT((*soak)["told"]["damaged: cut"].get<std::string>(), HasSubstr("the engine file is damaged"));
}

TEST_F(TritonServer, KeepsItsMemory) {
    deploy_classifier();
    check("memory");
}

TEST_F(TritonServer, NamesModelsThatCannotBeServed) {
    deploy_classifier();
    check("bad_models");
}

TEST_F(TritonServer, TakesEnginesWithoutAConfig) {
    deploy_classifier();
    check("completed");
}

TEST_F(TritonServer, TakesPicturesAsFiles) {
    work_.make_engine();
    deploy("m.engine", "--pictures");
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("data_type: TYPE_STRING\n  dims: [1]\n"));
    check("pictures");
}

TEST_F(TritonServer, TakesPicturesAsPixels) {
    work_.make_engine();
    deploy("m.engine", "--pixels");
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("data_type: TYPE_UINT8\n  dims: [-1, -1, 3]\n"));
    check("", "check_device.py");
}

// The whole way on one device, with a client that needs no package.
TEST_F(TritonServer, AnswersByEveryWay) {
    deploy_classifier();
    check("", "check_device.py");
}

TEST_F(TritonServer, AnswersByEveryWayOnAGpu) {
    const CommandResult doctor = work_.lathe("doctor --json");
    const auto found = parse_json(doctor.output, "doctor");
    ASSERT_TRUE(found) << doctor.output;
    const auto is_there = [](const Json& backend) {
        return backend["device"] == "cuda" && backend["available"] == true;
    };
    if (std::ranges::none_of((*found)["backends"], is_there)) GTEST_SKIP() << "SKIPPED: lathe doctor finds no GPU";
    work_.good("build m.onnx -o m.engine --device cuda --precision fp16");
    deploy("m.engine");
    deploy("m.engine", "--pixels --name pixels");
    std::filesystem::copy_file(work_.path("m.engine"), work_.path("pixels.engine"));
    EXPECT_THAT(work_.read("repo/m/config.pbtxt"), HasSubstr("KIND_GPU"));
    check("", "check_device.py", "--cuda");
}

TEST_F(TritonServer, TakesTextsAsTheyAre) {
    deploy_texts("--texts --copy-backend copied");
    EXPECT_THAT(work_.read("repo/t/config.pbtxt"),
                HasSubstr("input {\n  name: \"text\"\n  data_type: TYPE_STRING\n  dims: [1]\n"));
    EXPECT_TRUE(std::filesystem::exists(work_.path("copied/lathe/libopenvino_tokenizers.so")));
    backends_ = work_.path("copied").string();
    check("sentences");
}

TEST_F(TritonServer, ContinuesTextsATokenAnAnswer) {
    work_.save(TinyDecoder::decode(), "d.onnx");
    Model prompts = TinyDecoder::prefill();
    const auto golden = read_json_file(test::tokenizer_file());
    ASSERT_TRUE(golden) << golden.error().describe();
    prompts.set_metadata("lathe.tokenizer", (*golden)["tokenizer"].dump());
    work_.save(prompts, "p.onnx");
    work_.good("build d.onnx -o d.engine " + TinyDecoder::shapes(40));
    work_.good("build p.onnx -o p.engine " + TinyDecoder::prefill_shapes(12));
    work_.save(TinyDecoder::decode(4096), "long.onnx");
    work_.good("build long.onnx -o long.engine " + TinyDecoder::shapes(3010));
    deploy("d.engine", "--generate --prefill p.engine");
    EXPECT_THAT(work_.read("repo/d/config.pbtxt"), HasSubstr("model_transaction_policy {\n  decoupled: true\n}\n"));
    EXPECT_TRUE(std::filesystem::exists(work_.path("repo/d/1/prefill.engine")));
    deploy("d.engine", "--generate --name e --streams 3");
    EXPECT_THAT(work_.read("repo/e/config.pbtxt"), HasSubstr("count: 3\n"));
    EXPECT_THAT(work_.read("repo/e/config.pbtxt"), Not(HasSubstr("TYPE_STRING")));
    deploy("long.engine", "--generate --streams 1");
    // Texts of one decoder share runs.
    work_.good("build d.onnx -o joined.engine " + TinyDecoder::shapes(40, 4));
    deploy("joined.engine", "--generate --prefill p.engine --name j --streams 6");
    EXPECT_THAT(work_.read("repo/d/config.pbtxt"),
                HasSubstr("output {\n  name: \"text\"\n  data_type: TYPE_STRING\n  dims: [1]\n}\n"));
    check("streams", "check_generation.py");
}

TEST_F(TritonServer, TheHowtoLeadsToAnAnswer) {
    work_.make_engine();
    std::filesystem::copy_file(work_.path("photos/420.jpg"), work_.path("photo.jpg"));
    const CommandResult result =
        script("follow_howto.py", "'" + work_.path("").string() + "' '" + test::lathe_binary() + "'");
    if (result.exit_code == 77) GTEST_SKIP() << result.output;
    ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
    const Json run = work_.good_json("run m.engine photo.jpg");
    EXPECT_THAT(result.output, HasSubstr("photo.jpg\t" + run["samples"][0]["top"][0]["name"].get<std::string>()));
}

// The backend and what it needs, in a folder for another machine.
TEST_F(TritonServer, ServesFromACopyOfTheBackend) {
    work_.make_engine();
    deploy("m.engine", "--copy-backend backends");
    EXPECT_EQ(backends_, "backends");
    backends_ = work_.path("backends").string();
    EXPECT_TRUE(std::filesystem::exists(work_.path("backends/lathe/libtriton_lathe.so")));
    check("answers");
    const CommandResult again =
        work_.lathe("deploy triton m.engine --name n -o repo --backend lathe --copy-backend backends");
    EXPECT_NE(again.exit_code, 0);
    EXPECT_THAT(again.errors, HasSubstr("the backend exists there"));
}

} // namespace
} // namespace lathe::test
