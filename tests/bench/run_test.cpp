#include "bench/run.hpp"

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/engine_subject.hpp"
#include "bench/peer_model.hpp"
#include "bench/probe.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using ::testing::HasSubstr;

Node node(const char* type, std::vector<std::string> inputs, std::string output) {
    Node made;
    made.name = output;
    made.op_type = type;
    made.inputs = std::move(inputs);
    made.outputs = {std::move(output)};
    return made;
}

/// y = relu(x), for any batch of 64 values.
Model small_model() {
    Model model;
    model.ir_version = 9;
    model.opsets[""] = 18;
    ValueInfo x;
    x.name = "x";
    x.type = DataType::float32;
    x.dims = std::vector<Dimension>{Dimension::named("batch"), Dimension::of(64)};
    ValueInfo y = x;
    y.name = "y";
    model.graph.name = "small";
    model.graph.inputs = {x};
    model.graph.outputs = {y};
    model.graph.add(node("Relu", {"x"}, "y"));
    return model;
}

class BenchRun : public ::testing::Test {
protected:
    void SetUp() override {
        BuildOptions options;
        options.shapes["x"] = ShapeRange{{1, 64}, {2, 64}, {4, 64}};
        auto engine = Engine::build(small_model(), options);
        ASSERT_TRUE(engine) << engine.error().describe();
        const auto saved = engine->save(file_);
        ASSERT_TRUE(saved) << saved.error().describe();
        request_.engines = {file_};
        request_.duration_s = 0.05;
        request_.time_limit_s = 0.2;
    }
    test::TemporaryFolder folder_;
    std::filesystem::path file_ = folder_ / "small.engine";
    BenchRequest request_;
};

TEST_F(BenchRun, MeasuresTwoEnginesAndRawOpenVino) {
    const auto second = folder_ / "again";
    std::filesystem::create_directory(second);
    std::filesystem::copy_file(file_, second / "small.engine");
    request_.engines.push_back(second / "small.engine");
    request_.against = {{SubjectKind::openvino, {}, {}}, {SubjectKind::pytorch, {}, {}}};
    request_.command_line = "lathe bench";
    const auto document = bench(request_, no_progress());
    ASSERT_TRUE(document) << document.error().describe();
    EXPECT_EQ(document->at("kind"), "bench");
    EXPECT_EQ(document->at("version"), 1);
    // Of the default batch sizes those in the engine's range.
    EXPECT_EQ(document->at("latency").size(), 2U * 3U);
    EXPECT_EQ(document->at("throughput").size(), 2U * 3U);
    EXPECT_EQ(document->at("subjects")[0]["name"], "small");
    EXPECT_EQ(document->at("subjects")[1]["name"], "small-2");
    EXPECT_EQ(document->at("subjects")[2]["name"], "openvino");
    EXPECT_EQ(document->at("subjects")[0]["hash"].get<std::string>().size(), 32U);
    EXPECT_TRUE(document->at("subjects")[0]["load_ms"].is_null()) << "no probe command was given";
    EXPECT_TRUE(document->at("libraries").contains("openvino"));
    for (const auto& entry : document->at("latency")) {
        EXPECT_GT(entry["median_ms"].get<double>(), 0);
        EXPECT_LE(entry["min_ms"].get<double>(), entry["median_ms"].get<double>());
        EXPECT_LE(entry["ci95_ms"][0].get<double>(), entry["ci95_ms"][1].get<double>());
        EXPECT_GT(entry["count"].get<int>(), 0);
    }
    // The graph was not exported from PyTorch.
    ASSERT_EQ(document->at("unavailable").size(), 1U);
    EXPECT_EQ(document->at("unavailable")[0]["subject"], "pytorch");
    EXPECT_THAT(document->at("unavailable")[0]["reason"].get<std::string>(), HasSubstr("lathe.source"));
    EXPECT_THAT(document->at("unavailable")[0]["cure"].get<std::string>(), HasSubstr("lathe export"));
}

TEST_F(BenchRun, BadRequestsAreErrors) {
    request_.batch_sizes = {1, 64};
    auto result = bench(request_, no_progress());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(result.error().message, HasSubstr("1x64..2x64..4x64"));
    request_.batch_sizes = {0};
    EXPECT_EQ(bench(request_, no_progress()).error().code, ErrorCode::invalid_argument);
    request_.batch_sizes = {};
    request_.engines = {folder_ / "missing.engine"};
    EXPECT_FALSE(bench(request_, no_progress()));
    request_.engines = {};
    EXPECT_EQ(bench(request_, no_progress()).error().code, ErrorCode::invalid_argument);
}

TEST_F(BenchRun, TheProbeAnswersOrSaysWhyNot) {
    const Json inputs = Json::array({{{"name", "x"}, {"type", "float32"}, {"shape", {1, 64}}}});
    const Json answer = answer_probe({{"kind", "engine"}, {"file", file_.string()}, {"inputs", inputs}});
    ASSERT_TRUE(answer.contains("load_ms")) << answer.dump();
    EXPECT_GT(answer["peak_rss_bytes"].get<std::uint64_t>(), 1U << 20);
    for (const Json& bad :
         {Json{{"kind", "engine"}, {"file", "missing.engine"}, {"inputs", inputs}},
          Json{{"kind", "nobody"}, {"file", file_.string()}, {"inputs", inputs}}, Json{{"kind", 7}}, Json::object()}) {
        EXPECT_TRUE(answer_probe(bad).contains("error")) << bad.dump();
    }
    SubjectInfo info;
    const auto failed = probe_subject(info, {"sh", "-c", "exit 1"}, {}, no_progress());
    EXPECT_FALSE(failed);
}

TEST_F(BenchRun, TheEngineSubjectServesFromSeveralStreams) {
    auto engine = Engine::load(file_);
    ASSERT_TRUE(engine);
    const auto specs = engine_inputs(engine->info(), 2);
    ASSERT_TRUE(specs);
    EXPECT_EQ((*specs)[0].shape, (Shape{2, 64}));
    SubjectInfo info;
    info.file = file_;
    const auto subject = make_engine_subject(std::move(info), std::move(*engine));
    const auto inputs = InputSets::random(*specs, 1, 1);
    ASSERT_TRUE(inputs);
    ASSERT_TRUE(subject->prepare(*inputs, no_progress()));
    const auto served = subject->throughput(0.05, no_progress());
    ASSERT_TRUE(served) << served.error().describe();
    EXPECT_GT(served->requests, 10U);
    EXPECT_GE(served->seconds, 0.05);
}

TEST(ParsePeer, NamesAndFiles) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "a=b.onnx", std::string_view("x")));
    const auto half = parse_peer("torch-compile=fp16");
    ASSERT_TRUE(half);
    EXPECT_EQ(half->precision, "fp16");
    EXPECT_TRUE(half->file.empty());
    const auto int8 = parse_peer("torch-compile=int8");
    ASSERT_TRUE(int8);
    EXPECT_EQ(int8->precision, "int8");
    EXPECT_FALSE(parse_peer("pytorch=int8")) << "eager, that is floats with roundings";
    const auto plain = parse_peer("torch-compile");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->kind, SubjectKind::torch_compile);
    const auto file = parse_peer("onnxruntime=" + (folder / "a=b.onnx").string());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->file.filename(), "a=b.onnx");
    struct Case {
        const char* text;
        ErrorCode code;
    };
    for (const auto& [text, code] :
         {Case{"tensorflow", ErrorCode::invalid_argument}, Case{"engine", ErrorCode::invalid_argument},
          Case{"", ErrorCode::invalid_argument}, Case{"pytorch=m.onnx", ErrorCode::invalid_argument},
          Case{"openvino=missing.onnx", ErrorCode::not_found}, Case{"openvino=", ErrorCode::not_found}}) {
        const auto peer = parse_peer(text);
        ASSERT_FALSE(peer) << text;
        EXPECT_EQ(peer.error().code, code) << text;
    }
}

TEST(PeerModel, TellsQuantisedFromFloat) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(small_model(), folder / "float.onnx"));
    Model quantized = small_model();
    const float scale = 0.1F;
    quantized.graph.initializers["s"] = Tensor::of_floats("s", {}, {&scale, 1});
    quantized.graph.nodes.clear();
    quantized.graph.add(node("QuantizeLinear", {"x", "s"}, "q"));
    quantized.graph.add(node("DequantizeLinear", {"q", "s"}, "y"));
    ASSERT_TRUE(save_onnx(quantized, folder / "int8.onnx"));
    ASSERT_TRUE(write_file(folder / "nncf.xml", std::string_view(R"(<layer id="1" type="FakeQuantize"/>)")));
    const auto is = [&](const char* name) {
        const auto answer = is_quantized_model(folder / name);
        EXPECT_TRUE(answer) << name;
        return answer && *answer;
    };
    EXPECT_FALSE(is("float.onnx"));
    EXPECT_TRUE(is("int8.onnx"));
    EXPECT_TRUE(is("nncf.xml"));
    EXPECT_FALSE(is_quantized_model(folder / "missing.onnx"));
}

} // namespace
} // namespace lathe
