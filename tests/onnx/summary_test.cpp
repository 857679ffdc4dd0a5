#include "onnx/models.hpp"
#include "onnx/summary.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

struct MacCase {
    const char* name;
    const char* text;
    std::vector<std::pair<const char*, Shape>> weights;
    std::int64_t macs;
};

/// GoogleTest names a parameter by this.
void PrintTo(const MacCase& c, std::ostream* out) { *out << c.name; }
class Macs : public testing::TestWithParam<MacCase> {};

TEST_P(Macs, MatchTheFormula) {
    Model model = test::model_from(GetParam().text);
    for (const auto& [name, shape] : GetParam().weights)
        test::add_initializer(model, test::ramp(name, shape));
    const ModelSummary summary = summarize(model);
    EXPECT_EQ(summary.macs, GetParam().macs);
    EXPECT_EQ(summary.unknown_layers, 0U);
}

const MacCase mac_cases[] = {
    // out 8x5x5 from 3x3 kernels over 3 channels
    {"Conv", "agraph (float[2,3,7,7] x) => (float[] y) { y = Conv(x, w) }", {{"w", {8, 3, 3, 3}}}, 2 * 8 * 25 * 27},
    {"GroupedConv",
     "agraph (float[1,8,7,7] x) => (float[] y) { y = Conv <group = 4> (x, w) }",
     {{"w", {16, 2, 3, 3}}},
     16 * 25 * 2 * 9},
    {"DepthwiseConv1d",
     "agraph (float[1,4,10] x) => (float[] y) { y = Conv <group = 4> (x, w) }",
     {{"w", {4, 1, 3}}},
     4 * 8 * 3},
    {"ConvTranspose",
     "agraph (float[1,3,4,4] x) => (float[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
     {{"w", {3, 5, 2, 2}}},
     16 * 3 * 5 * 4},
    {"Gemm", "agraph (float[4,6] x) => (float[] y) { y = Gemm(x, w) }", {{"w", {6, 5}}}, 4 * 6 * 5},
    {"GemmTransposed",
     "agraph (float[6,4] x) => (float[] y) { y = Gemm <transA = 1, transB = 1> (x, w) }",
     {{"w", {5, 6}}},
     4 * 6 * 5},
    {"MatMulBatched",
     "agraph (float[2,12,9,7] x, float[2,12,7,3] w) => (float[] y) { y = MatMul(x, w) }",
     {},
     2 * 12 * 9 * 7 * 3},
    {"MatMulVector", "agraph (float[7] x) => (float[] y) { y = MatMul(x, w) }", {{"w", {7, 3}}}, 21},
    {"Lstm",
     "agraph (float[5,2,3] x) => (float[] y) { y = LSTM <hidden_size = 4> (x, w, r) }",
     {{"w", {1, 16, 3}}, {"r", {1, 16, 4}}},
     5 * 2 * (16 * 3 + 16 * 4)},
    {"UnknownBatchCountsAsOne", "agraph (float[N,6] x) => (float[] y) { y = MatMul(x, w) }", {{"w", {6, 5}}}, 30},
    {"Elementwise", "agraph (float[4,6] x) => (float[] y) { y = Relu(x) }", {}, 0},
};
INSTANTIATE_TEST_SUITE_P(Table, Macs, testing::ValuesIn(mac_cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Summary, PrecisionFollowsDequantizeLinear) {
    auto proto = test::proto_from(R"(agraph (float[1,4] x) => (float[1,2] y) {
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        wd = DequantizeLinear(wq, s, z)
        wt = Transpose(wd)
        h = MatMul(d, wt)
        wd2 = DequantizeLinear(wq2, s, z)
        y = MatMul(h, wd2) })");
    auto loaded = parse_onnx(test::bytes_of(proto.SerializeAsString()), {}, {false, 64});
    ASSERT_TRUE(loaded);
    Model& model = *loaded;
    test::add_initializer(model, Tensor::of_floats("s", {}, std::vector{0.5F}));
    const auto int8s = [](const char* name, Shape shape) {
        return Tensor(name, DataType::int8, shape,
                      std::vector<std::byte>(static_cast<std::size_t>(element_count(shape))));
    };
    test::add_initializer(model, int8s("z", {}));
    test::add_initializer(model, int8s("wq", {3, 4}));
    test::add_initializer(model, int8s("wq2", {3, 2}));
    const ModelSummary summary = summarize(model);
    EXPECT_EQ(summary.precisions, (std::map<std::string, std::size_t>{{"fp32 (weights int8)", 1}, {"int8", 1}}));
    EXPECT_EQ(summary.macs, 12 + 6);
    EXPECT_EQ(summary.parameters, 12 + 6 + 2);
    EXPECT_EQ(summary.weight_bytes, 12 + 6 + 4 + 1);
    EXPECT_EQ(summary.operators.at("DequantizeLinear"), 3U);
    EXPECT_EQ(summary.layers[4].parameters, 12) << "the weight behind Transpose and DequantizeLinear";
}

TEST(Summary, ActivationBytesAndPeak) {
    // x (input) -> a (400) -> b (400) -> c (400); c adds a: a, b and c are alive together.
    const Model model =
        test::model_from("agraph (float[100] x) => (float[100] c) { a = Neg(x) b = Relu(a) c = Add(a, b) }");
    const ModelSummary summary = summarize(model);
    EXPECT_EQ(summary.activation_bytes, 1200);
    EXPECT_EQ(summary.peak_activation_bytes, 1200);
    const Model chain =
        test::model_from("agraph (float[100] x) => (float[100] c) { a = Neg(x) b = Relu(a) c = Neg(b) }");
    EXPECT_EQ(summarize(chain).peak_activation_bytes, 800);
}

TEST(Summary, JsonHoldsTheSame) {
    Model model = test::model_from("agraph (float[N,6] x) => (float[] y) { y = MatMul(x, w) }");
    test::add_initializer(model, test::ramp("w", {6, 5}));
    const Json json = to_json(summarize(model), true);
    EXPECT_EQ(json["opset"], 18);
    EXPECT_EQ(json["inputs"][0]["shape"], Json::parse(R"(["N", 6])"));
    EXPECT_EQ(json["outputs"][0]["shape"], Json::parse(R"(["N", 5])"));
    EXPECT_EQ(json["macs"], 30);
    EXPECT_EQ(json["assumed_dimensions"], true);
    EXPECT_EQ(json["layers"].size(), 1U);
    EXPECT_EQ(json["layers"][0]["parameters"], 30);
    EXPECT_FALSE(to_json(summarize(model), false).contains("layers"));
}

TEST(Summary, MobileNetHasItsPublishedCost) {
    const std::filesystem::path path = test::shared_data("models/mobilenet_v1_0.75_224.onnx");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: " << path << " is absent";
    const auto model = load_onnx(path);
    ASSERT_TRUE(model) << model.error().describe();
    const ModelSummary summary = summarize(*model);
    // Howard et al. 2017, table 6: 0.75 MobileNet-224 has 325 million multiply-adds and 2.6 million parameters.
    EXPECT_NEAR(static_cast<double>(summary.macs), 325e6, 5e6);
    EXPECT_NEAR(static_cast<double>(summary.parameters), 2.6e6, 0.05e6);
    EXPECT_EQ(summary.unknown_layers, 0U);
}

} // namespace
} // namespace lathe
