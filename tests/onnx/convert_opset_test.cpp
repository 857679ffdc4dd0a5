#include <set>
#include <string>

#include "onnx/models.hpp"

namespace lathe {
namespace {

Model old_model() {
    Model model =
        test::model_from(R"(<ir_version: 8, opset_import: ["" : 11]> agraph (float[N, 3, 4] x) => (float[N, 12] y) {
        s = Squeeze <axes = [0]> (q)
        r = ReduceSum <axes = [1], keepdims = 1> (x)
        t = Sub(x, r)
        u = Add(t, s)
        y = Flatten <axis = 1> (u) })");
    test::add_initializer(model, test::ramp("q", {1, 3, 4}));
    test::add_initializer(model, test::ramp("unused", {100, 100}));
    model.set_metadata("lathe.labels", "[\"cat\"]");
    model.graph.nodes[1]->name = "sum";
    model.graph.nodes[1]->doc = "kept";
    model.graph.nodes[1]->metadata = {{"scope", "encoder"}};
    model.producer_name = "someone";
    return model;
}

TEST(ConvertOpset, UpgradesAndKeepsWhatTheConverterDrops) {
    Model model = old_model();
    const auto result = convert_opset(model, 18);
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(model.opset(), 18);
    ASSERT_NE(model.find_metadata("lathe.labels"), nullptr);
    EXPECT_EQ(model.producer_name, "someone");
    EXPECT_EQ(model.graph.initializers.at("unused").count(), 10000U) << "a weight the converter was not shown";
    EXPECT_TRUE(same_content(model.graph.initializers.at("unused"), old_model().graph.initializers.at("unused")));
    bool found = false;
    for (const auto& node : model.graph.nodes) {
        if (node->op_type != "ReduceSum") continue;
        found = true;
        EXPECT_EQ(node->inputs.size(), 2U) << "axes became an input in opset 13";
        EXPECT_EQ(node->name, "sum");
        EXPECT_EQ(node->doc, "kept");
        EXPECT_EQ(node->metadata.size(), 1U);
    }
    EXPECT_TRUE(found);
    EXPECT_EQ(model.graph.inputs[0].dims->front().symbol, "N");
    EXPECT_TRUE(check_onnx(model, {true}));
}

// A Softmax of opset 11 over an axis that is not the last becomes four nodes; ONNX Runtime takes no two of one name.
TEST(ConvertOpset, NamesOfNodesStayApart) {
    Model model = test::model_from(
        R"(<ir_version: 8, opset_import: ["" : 11]> agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) {
        y = Softmax <axis = 1> (x) })");
    model.graph.nodes[0]->name = "shares";
    const auto result = convert_opset(model, 13);
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_GT(model.graph.nodes.size(), 1U);
    std::set<std::string> names;
    for (const auto& node : model.graph.nodes)
        EXPECT_TRUE(node->name.empty() || names.insert(node->name).second) << node->name;
    EXPECT_TRUE(names.contains("shares"));
}

TEST(ConvertOpset, PoolsThatRoundUpKeepTheirSizes) {
    // The third window would begin behind the input: the converter's inference counts it.
    Model model = test::model_from(
        R"(<ir_version: 8, opset_import: ["" : 11]> agraph (float[1, 2, 4] x) => (float[1, 2, s] y) {
        a = AveragePool <kernel_shape = [1], strides = [4], pads = [0, 1], ceil_mode = 1> (x)
        y = Relu (a) })");
    ASSERT_TRUE(infer_shapes(model));
    const auto before = model.graph.info("a");
    const auto result = convert_opset(model, 13);
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(model.graph.info("a")->shape(), before->shape());
}

TEST(ConvertOpset, SameVersionChangesNothing) {
    Model model = old_model();
    ASSERT_TRUE(convert_opset(model, 11));
    EXPECT_EQ(model.opset(), 11);
}

TEST(ConvertOpset, RefusalNamesTheNodeAndLeavesTheModelAlone) {
    Model model =
        test::model_from(R"(<ir_version: 9, opset_import: ["" : 18]> agraph (float[2, 8] x) => (float[2, 8] y) {
        y = Mish(x) })");
    const auto result = convert_opset(model, 17);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::unsupported);
    EXPECT_NE(result.error().where.find("Mish"), std::string::npos) << result.error().describe();
    EXPECT_NE(result.error().hint.find("opset"), std::string::npos);
    EXPECT_EQ(model.opset(), 18);
}

TEST(ConvertOpset, SpeaksOfTheModelAndNotOfItsSource) {
    Model model = old_model();
    model.graph.nodes.front()->op_type = "Geim";
    const auto result = convert_opset(model, 18);
    ASSERT_FALSE(result);
    for (const char* raw : {"Assertion", ".cc:", "%s"})
        EXPECT_EQ(result.error().describe().find(raw), std::string::npos) << result.error().describe();
    EXPECT_NE(result.error().where.find("Geim"), std::string::npos) << result.error().describe();
}

TEST(ConvertOpset, RefusesWhatItWouldLose) {
    Model model = test::model_from(R"(<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
        agraph (float[2] x) => (float[2] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 17]> f (a) => (b) { b = Neg(a) })");
    const auto result = convert_opset(model, 18);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("functions"), std::string::npos);
}

TEST(ConvertOpset, UnknownVersionsAreRefused) {
    Model model = old_model();
    for (const std::int64_t target : {std::int64_t{0}, std::int64_t{-3}, latest_opset() + 1, std::int64_t{1} << 40}) {
        const auto result = convert_opset(model, target);
        ASSERT_FALSE(result) << target;
        EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    }
}

} // namespace
} // namespace lathe
