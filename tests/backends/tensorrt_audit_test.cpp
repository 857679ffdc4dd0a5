// The precision that was asked for must be there: judged by layers as TensorRT's inspector or its parsed network tell
// them.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/api/tensorrt_audit.hpp"
#include "backends/api/tensorrt_layers.hpp"

namespace lathe {
namespace {

/// A convolution of 1 000 000 multiply-accumulates, a transposed one of 180 000, a matrix product of 100 000, one of
/// attention of 250 000 and what multiplies nothing, as TensorRT 8 to 11 tell them.
std::vector<LayerInfo> engine(const std::string& conv, const std::string& gemm, const std::string& attention) {
    const auto tensor = [](const std::string& sizes, const std::string& type) {
        return R"([{"Dimensions": [)" + sizes + R"(], "Format/Datatype": ")" + type + R"("}])";
    };
    return layers_of_inspector(Json::parse(
        R"({"Layers": [{"Name": "conv", "LayerType": "CaskConvolution", "ParameterType": "Convolution", "OutMaps": 20,
            "Weights": {"Type": "Half", "Count": 2000}, "Inputs": )" +
        tensor("-1, 100, 10, 100", conv) + R"(, "Outputs": )" + tensor("-1, 20, 5, 100", conv) +
        R"(}, {"Name": "up", "LayerType": "CaskDeconvolutionV2", "OutMaps": 8, "Weights": {"Count": 1800},
            "Inputs": )" +
        tensor("1, 5, 10, 10", conv) + R"(, "Outputs": )" + tensor("1, 8, 30, 30", conv) +
        R"(}, {"Name": "fc", "LayerType": "gemm", "Metadata": "[ONNX Layer: /fc/MatMul]", "Inputs": )" +
        tensor("1, 1000", gemm) + R"(, "Outputs": )" + tensor("1, 100", gemm) +
        R"(}, {"Name": "__myl_MatMul_7", "LayerType": "gemm", "Metadata": "[ONNX Layer: /attention/MatMul]", "Inputs": )" +
        tensor("50, 100", attention) + R"(, "Outputs": )" + tensor("50, 50", attention) +
        R"(}, {"Name": "soft", "LayerType": "kgen", "Inputs": )" + tensor("50, 50", "Float") + R"(, "Outputs": )" +
        tensor("50, 50", "Float") + R"(}, {"Name": "unsaid", "LayerType": "gemm"}]})"));
}

TEST(TensorRtAudit, CountsWhatTheInspectorTells) {
    const auto layers = engine("Int8", "Half", "Half");
    ASSERT_EQ(layers.size(), 6U);
    EXPECT_EQ(layers[0].macs, 1e6);
    EXPECT_EQ(layers[1].macs, 180e3);
    EXPECT_EQ(layers[2].macs, 100e3);
    EXPECT_EQ(layers[3].macs, 250e3);
    EXPECT_EQ(layers[4].macs, 0);
    EXPECT_EQ(layers[5].macs, 0);
    const auto shares = precision_shares(layers);
    EXPECT_EQ(shares.size(), 2U);
    EXPECT_NEAR(shares.at("int8"), 1180.0 / 1530, 1e-9);
    EXPECT_NEAR(shares.at("fp16"), 350.0 / 1530, 1e-9);
    EXPECT_TRUE(precision_shares({}).empty());
    // Odd forms count nothing and break nothing.
    for (const char* text :
         {R"({"Layers": [{"Name": "a", "LayerType": "conv", "OutMaps": 3, "Weights": 7}]})",
          R"({"Layers": [{"Name": "a", "LayerType": "gemm", "Inputs": [{"Dimensions": ["x"]}], "Outputs": [3]}]})",
          R"({"Layers": [{"Name": "a", "LayerType": "deconv", "OutMaps": 2, "Weights": {"Count": 4}}]})"}) {
        const auto odd = layers_of_inspector(Json::parse(text));
        ASSERT_EQ(odd.size(), 1U);
        EXPECT_EQ(odd[0].macs, 0) << text;
    }
}

TEST(TensorRtAudit, NineTenthsMustBeInThePrecisionAsked) {
    const auto judged = [](const std::vector<LayerInfo>& layers, Precision asked, bool allow = false) {
        return check_precision({layers, LayerSource::engine, {"/attention/MatMul"}}, asked, allow);
    };
    // 1180 of 1280 thousand are int8: attention's are not asked of int8, but are of fp16.
    EXPECT_TRUE(judged(engine("Int8", "Half", "Half"), Precision::int8));
    const auto half = judged(engine("Half", "Half", "Float"), Precision::float16);
    ASSERT_FALSE(half);
    EXPECT_NE(
        half.error().message.find("the engine multiplies 83 % in fp16, 16 % in fp32; __myl_MatMul_7 (fp32) is not"),
        std::string::npos)
        << half.error().describe();
    EXPECT_TRUE(judged(engine("Half", "Half", "Float"), Precision::float16, true));
    EXPECT_TRUE(judged(engine("Int8", "Half", "Half"), Precision::float16)); // Q/DQ in the graph asked for int8
    EXPECT_TRUE(judged(engine("Float", "Float", "Float"), Precision::float32));
    EXPECT_TRUE(judged(engine("Half", "Half", "Half"), Precision::tensor_float32));
    // Some int8 is not enough; none is not even where less is allowed.
    const auto some = judged(engine("Half", "Int8", "Half"), Precision::int8);
    ASSERT_FALSE(some);
    EXPECT_EQ(some.error().code, ErrorCode::unsupported);
    EXPECT_NE(some.error().message.find("7 % in int8"), std::string::npos) << some.error().describe();
    EXPECT_NE(some.error().hint.find("--allow-fallback"), std::string::npos);
    EXPECT_TRUE(judged(engine("Half", "Int8", "Half"), Precision::int8, true));
    const auto none = judged(engine("Half", "Half", "Int8"), Precision::int8, true);
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().hint.find("lathe quantize"), std::string::npos);
    // Without products nothing is in the wrong precision.
    EXPECT_TRUE(judged({}, Precision::int8));
}

TEST(TensorRtAudit, NamesTheLargestOfThoseThatAreNot) {
    std::vector<LayerInfo> layers;
    for (int i = 0; i < 8; ++i) {
        LayerInfo layer;
        layer.name = "l" + std::to_string(i);
        layer.precision = i == 0 ? "bf16" : "fp32";
        layer.macs = 1 + i;
        layers.push_back(layer);
    }
    const auto checked = check_precision({layers, LayerSource::network, {}}, Precision::bfloat16, false);
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find("the network multiplies 2 % in bf16, 97 % in fp32; l7 (fp32), l6 (fp32), l5 "
                                           "(fp32), l4 (fp32), l3 (fp32) and 2 more are not"),
              std::string::npos)
        << checked.error().describe();
}

TEST(TensorRtAudit, AnEngineThatHidesItsProductsDoesNotTellTheWork) {
    const auto whole = engine("Half", "Half", "Half");
    EXPECT_TRUE(tells_the_work(whole, whole));
    EXPECT_TRUE(tells_the_work({whole.data(), 4}, whole));
    EXPECT_FALSE(tells_the_work({whole.data(), 2}, whole)); // 1180 of 1530 thousand
    EXPECT_FALSE(tells_the_work({}, whole));
    EXPECT_TRUE(tells_the_work({}, {}));
}

} // namespace
} // namespace lathe
