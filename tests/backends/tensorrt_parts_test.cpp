// What `--device tensorrt` takes, in a model's metadata, and what TensorRT's inspector tells of an engine.
#include <gtest/gtest.h>

#include "backends/api/tensorrt.hpp"
#include "backends/api/tensorrt_layers.hpp"
#include "backends/models.hpp"

namespace lathe {
namespace {

TEST(TensorRtOptions, TravelInTheModel) {
    Model model = test::small_network();
    EXPECT_EQ(*tensorrt_options_of(model), TensorRtOptions{});
    TensorRtOptions wanted;
    wanted.optimization_level = 3;
    wanted.refittable = true;
    wanted.compute_capabilities = {89, 120};
    set_tensorrt_options(model, wanted);
    EXPECT_EQ(*tensorrt_options_of(model), wanted);
}

TEST(TensorRtOptions, WhatCannotBeIsRefused) {
    for (const int level : {-1, 6}) {
        Model model = test::small_network();
        TensorRtOptions wanted;
        wanted.optimization_level = level;
        set_tensorrt_options(model, wanted);
        EXPECT_EQ(tensorrt_options_of(model).error().code, ErrorCode::parse_error) << level;
    }
    for (const char* text : {"", "[]", "{}", R"({"optimization_level":"high"})"}) {
        Model model = test::small_network();
        model.set_metadata("lathe.tensorrt", text);
        EXPECT_EQ(tensorrt_options_of(model).error().code, ErrorCode::parse_error) << text;
    }
}

TEST(InspectedLayers, AsTensorRt8And10TellThem) {
    const Json json = Json::parse(R"({"Layers": [
        {"Name": "conv1 + relu1", "LayerType": "CaskConvolution",
         "Inputs": [{"Name": "a", "Dimensions": [16, 512, 28, 28],
                     "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format."}],
         "Outputs": [{"Name": "b", "Format/Datatype": "Channel major FP16 format where channel % 8 == 0"}],
         "TacticName": "sm80_xmma_fprop_implicit_gemm"},
        {"Name": "__myl_Fc", "LayerType": "gemm", "Inputs": [{"Format/Datatype": "Half"}],
         "Outputs": [{"Format/Datatype": "BFloat16"}],
         "Metadata": "[ONNX Layer: /fc/MatMul]\u001e[ONNX Layer: /fc[0]/Add]"},
        {"Name": "where", "LayerType": "kgen", "Inputs": [{"Format/Datatype": "Bool"}],
         "Outputs": [{"Format/Datatype": "Float"}], "Metadata": "[ONNX Layer: w1][ONNX Layer: w2]"},
        {"Name": "odd", "Inputs": 3, "Outputs": [], "Metadata": "[ONNX Layer: "},
        "names alone", 7, {}], "Bindings": ["a"]})");
    const std::vector<LayerInfo> layers = layers_of_inspector(json);
    ASSERT_EQ(layers.size(), 5U);
    EXPECT_EQ(layers[0].name, "conv1 + relu1");
    EXPECT_EQ(layers[0].type, "CaskConvolution");
    EXPECT_EQ(layers[0].precision, "int8"); // computed so, whatever it gives
    EXPECT_EQ(layers[0].implementation, "sm80_xmma_fprop_implicit_gemm");
    EXPECT_TRUE(layers[0].nodes.empty());
    EXPECT_EQ(layers[1].precision, "bf16");
    EXPECT_EQ(layers[1].nodes, (std::vector<std::string>{"/fc/MatMul", "/fc[0]/Add"}));
    EXPECT_EQ(layers[2].precision, "fp32");
    EXPECT_EQ(layers[2].nodes, (std::vector<std::string>{"w1", "w2"}));
    EXPECT_EQ(layers[3].precision, "");
    EXPECT_TRUE(layers[3].nodes.empty());
    EXPECT_EQ(layers[4].name, "names alone");
    for (const char* text : {"[]", "{}", R"({"Layers": 3})", "null"})
        EXPECT_TRUE(layers_of_inspector(Json::parse(text)).empty()) << text;
}

} // namespace
} // namespace lathe
