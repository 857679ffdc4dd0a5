#include <cmath>

#include "onnx/models.hpp"

namespace lathe {
namespace {

TEST(Check, AcceptsAValidModelAndNamesWhatIsWrongElsewhere) {
    Model model = test::model_from("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
    EXPECT_TRUE(check_onnx(model, {true}));
    model.graph.nodes[0]->op_type = "Rellu";
    const auto verdict = check_onnx(model);
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().code, ErrorCode::verification_failed);
    EXPECT_NE(verdict.error().message.find("Rellu"), std::string::npos);
}

TEST(Check, AcceptsOutputsOfWhichNoShapeIsTold) {
    Model model = test::model_from("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
    model.graph.outputs[0].dims.reset();
    const auto verdict = check_onnx(model, {true});
    EXPECT_TRUE(verdict) << verdict.error().describe();
}

TEST(Check, FullFindsShapesThatContradict) {
    const Model model =
        test::model_from("agraph (float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }");
    EXPECT_TRUE(check_onnx(model));
    EXPECT_FALSE(check_onnx(model, {true}));
}

TEST(InferShapes, KeepsSymbolsAndFollowsShapeArithmetic) {
    Model model = test::model_from(R"(agraph (float[batch, 3, 4] x) => (float[] y) {
        shape = Shape(x)
        zero = Constant <value = int64[1] {0}> ()
        first = Gather <axis = 0> (shape, zero)
        rest = Constant <value = int64[1] {12}> ()
        target = Concat <axis = 0> (first, rest)
        flat = Reshape(x, target)
        y = Relu(flat) })");
    ASSERT_TRUE(infer_shapes(model));
    const auto flat = model.graph.info("flat");
    ASSERT_TRUE(flat && flat->dims);
    EXPECT_EQ(*flat->dims, (std::vector<Dimension>{Dimension::named("batch"), Dimension::of(12)}));
    EXPECT_EQ(flat->type, DataType::float32);
    EXPECT_EQ(model.graph.outputs[0].shape(), (Shape{-1, 12}));
}

TEST(InferShapes, ReachesIntoSubgraphs) {
    Model model = test::model_from(R"(agraph (bool c, float[2, 3] x) => (float[] y) {
        y = If (c) <then_branch = a () => (float[] u) { t = Transpose(x) u = Neg(t) },
                    else_branch = b () => (float[] v) { v = Transpose(x) }> })");
    ASSERT_TRUE(infer_shapes(model));
    const auto& box = std::get<GraphBox>(model.graph.nodes[0]->attribute("then_branch")->value);
    ASSERT_TRUE(box->info("t"));
    EXPECT_EQ(box->info("t")->shape(), (Shape{3, 2}));
}

TEST(InferShapes, LargeWeightsAreNotNeeded) {
    Model model = test::model_from("agraph (float[1, 300] x) => (float[] y) { t = MatMul(x, w) y = Reshape(t, s) }");
    test::add_initializer(model, test::ramp("w", {300, 200}));
    test::add_initializer(model, Tensor::of_int64s("s", {2}, std::vector<std::int64_t>{20, 10}));
    ASSERT_TRUE(infer_shapes(model));
    EXPECT_EQ(model.graph.outputs[0].shape(), (Shape{20, 10}));
    EXPECT_EQ(model.graph.initializers.at("w").count(), 60000U);
}

TEST(InferShapes, StaleInfosAreForgottenOnRequest) {
    Model model = test::model_from("agraph (float[2, 3] x) => (float[] y) { t = Relu(x) y = Neg(t) }");
    model.graph.value_infos["t"] = ValueInfo{"t", DataType::float32, std::vector{Dimension::of(7)}, "", {}, ""};
    EXPECT_FALSE(infer_shapes(model, {false, true})) << "strict inference sees the contradiction";
    ASSERT_TRUE(infer_shapes(model));
    EXPECT_EQ(model.graph.info("t")->shape(), (Shape{7})) << "what the file says is kept";
    ASSERT_TRUE(infer_shapes(model, {true, false}));
    EXPECT_EQ(model.graph.info("t")->shape(), (Shape{2, 3}));
}

TEST(Nonfinite, NamesTensorsAndCounts) {
    Model model = test::model_from("agraph (float[3] x) => (float[3] y) { y = Add(x, w) }");
    const float nan = std::nanf("");
    const float inf = std::numeric_limits<float>::infinity();
    test::add_initializer(model, Tensor::of_floats("w", {3}, std::vector{nan, inf, 1.0F}));
    test::add_initializer(model, test::ramp("fine", {3}));
    const std::vector<std::uint16_t> half{0x7E00, 0xFC00, 0x3C00};
    test::add_initializer(model, Tensor::of<std::uint16_t>("h", DataType::float16, {3}, half));
    test::add_initializer(model,
                          Tensor::of<std::uint16_t>("b", DataType::bfloat16, {1}, std::vector<std::uint16_t>{0x7F80}));
    test::add_initializer(model, Tensor::of<double>("d", DataType::float64, {1}, std::vector<double>{std::nan("")}));
    const auto found = find_nonfinite(model);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[0].name, "b");
    EXPECT_EQ(found[0].infinities, 1U);
    EXPECT_EQ(found[2].name, "h");
    EXPECT_EQ(found[2].nans, 1U);
    EXPECT_EQ(found[2].infinities, 1U);
    EXPECT_EQ(found[3].name, "w");
    EXPECT_EQ(found[3].nans, 1U);
    const auto text = serialize_onnx(model);
    ASSERT_TRUE(text);
    EXPECT_TRUE(parse_onnx(test::bytes_of(*text))) << "such a model still loads";
}

TEST(Nonfinite, InfinitiesThatNoLayerReadsAreNoWeights) {
    const float infinity = std::numeric_limits<float>::infinity();
    const auto first = [&](const std::string& body) {
        Model model = test::model_from("agraph (float[2] x, float[2] w) => (float[2] y) { " + body + " }");
        model.graph.inputs.pop_back();
        model.graph.initializers.emplace("w", Tensor::of_floats("w", {2}, std::vector<float>{-infinity, -3}));
        return find_nonfinite(model).at(0);
    };
    // The logarithm of a distance of 0, in T5's buckets, and biases by distance beside a mask.
    EXPECT_TRUE(first("i = Cast <to = 7> (w) f = Cast <to = 1> (i) y = Mul (x, f)").mask);
    EXPECT_TRUE(first("s = Add (x, w) y = Softmax <axis = 0> (s)").mask);
    EXPECT_FALSE(first("y = Add (x, w)").mask) << "a bias";
    EXPECT_FALSE(first("y = Mul (x, w)").mask);
    EXPECT_FALSE(first("t = Identity (w) y = Mul (x, t)").mask);
}

} // namespace
} // namespace lathe
