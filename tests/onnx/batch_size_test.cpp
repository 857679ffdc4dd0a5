#include "onnx/models.hpp"

namespace lathe {
namespace {

struct BatchCase {
    const char* name;
    const char* text;
    std::vector<std::pair<const char*, std::vector<std::int64_t>>> targets; ///< Reshape targets to add
    Dimension batch;
    Shape output; ///< afterwards
};

/// GoogleTest names a parameter by this.
void PrintTo(const BatchCase& c, std::ostream* out) { *out << c.name; }

class SetBatchSize : public testing::TestWithParam<BatchCase> {};

Model build(const BatchCase& each) {
    Model model = test::model_from(each.text);
    for (const auto& [name, target] : each.targets) {
        test::add_initializer(model, Tensor::of_int64s(name, {static_cast<std::int64_t>(target.size())}, target));
    }
    return model;
}

TEST_P(SetBatchSize, OutputsFollow) {
    Model model = build(GetParam());
    const auto result = set_batch_size(model, GetParam().batch);
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(model.graph.inputs[0].dims->front(), GetParam().batch);
    EXPECT_EQ(model.graph.outputs[0].shape(), GetParam().output);
    EXPECT_TRUE(check_onnx(model, {true})) << check_onnx(model, {true}).error().describe();
}

const BatchCase batch_cases[] = {
    {"PlainNodes",
     "agraph (float[1, 3, 4] x) => (float[1, 3, 4] y) { t = Relu(x) y = Neg(t) }",
     {},
     Dimension::of(8),
     {8, 3, 4}},
    {"ToSymbol",
     "agraph (float[1, 3, 4] x) => (float[1, 3, 4] y) { y = Neg(x) }",
     {},
     Dimension::named("batch"),
     {-1, 3, 4}},
    {"FromSymbol", "agraph (float[batch, 3] x) => (float[batch, 3] y) { y = Neg(x) }", {}, Dimension::of(4), {4, 3}},
    {"FromUnknown", "agraph (float[?, 3] x) => (float[?, 3] y) { y = Neg(x) }", {}, Dimension::of(4), {4, 3}},
    {"FlattenReshape",
     "agraph (float[1, 3, 4] x) => (float[1, 12] y) { y = Reshape(x, s) }",
     {{"s", {1, -1}}},
     Dimension::of(8),
     {8, 12}},
    {"FlattenReshapeToSymbol",
     "agraph (float[1, 3, 4] x) => (float[1, 12] y) { y = Reshape(x, s) }",
     {{"s", {1, 12}}},
     Dimension::named("N"),
     {-1, 12}},
    {"HeadsMergedAndSplit",
     "agraph (float[2, 8, 64] x) => (float[2, 8, 64] y) { a = Reshape(x, m) b = Relu(a) y = Reshape(b, s) }",
     {{"m", {16, 64}}, {"s", {2, 8, 64}}},
     Dimension::of(6),
     {6, 8, 64}},
    {"MergedWithMinusOneElsewhere",
     "agraph (float[1, 8, 768] x) => (float[12, 8, 64] y) { y = Reshape(x, m) }",
     {{"m", {12, -1, 64}}},
     Dimension::of(4),
     {48, 8, 64}},
    {"AlreadyFollows",
     "agraph (float[1, 3, 4] x) => (float[1, 12] y) { y = Reshape(x, s) }",
     {{"s", {0, 12}}},
     Dimension::of(5),
     {5, 12}},
    {"ConstantNodeTarget",
     "agraph (float[1, 3, 4] x) => (float[1, 12] y) { s = Constant <value = int64[2] {1, 12}> () y = Reshape(x, s) }",
     {},
     Dimension::of(3),
     {3, 12}},
};
INSTANTIATE_TEST_SUITE_P(Table, SetBatchSize, testing::ValuesIn(batch_cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SetBatchSizeLimits, ASharedTargetIsChangedOnlyWhereItMustFollow) {
    Model model = test::model_from("agraph (float[1, 3, 4] x) => (float[1, 12] y) {"
                                   "y0 = Reshape(x, s) c = Reshape(w, s) y = Add(y0, c) }");
    test::add_initializer(model, test::ramp("w", {3, 4}));
    test::add_initializer(model, Tensor::of_int64s("s", {2}, std::vector<std::int64_t>{1, 12}));
    ASSERT_TRUE(set_batch_size(model, Dimension::of(2)));
    EXPECT_EQ(model.graph.nodes[1]->input(1), "s") << "the weight's Reshape must stay";
    EXPECT_NE(model.graph.nodes[0]->input(1), "s");
    EXPECT_EQ(model.graph.outputs[0].shape(), (Shape{2, 12}));
}

TEST(SetBatchSizeLimits, ABuiltInSizeIsRefusedNamingTheNode) {
    for (const char* text : {
             "agraph (float[4, 3] x) => (float[4, 3] y) { y = Expand(x, s) }", // a fixed target
             "agraph (float[4, 3] x) => (float[3, 4] y) { y = Transpose(x) }", // batch is not outermost afterwards
             "agraph (float[4, 3] x) => (float[1, 3] y) { y = ReduceSum(x, axes) }", // mixes samples
         }) {
        Model model = test::model_from(text);
        test::add_initializer(model, Tensor::of_int64s("s", {2}, std::vector<std::int64_t>{4, 3}));
        test::add_initializer(model, Tensor::of_int64s("axes", {1}, std::vector<std::int64_t>{0}));
        const auto result = set_batch_size(model, Dimension::of(2));
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().code, ErrorCode::unsupported) << result.error().describe();
        EXPECT_FALSE(result.error().where.empty()) << result.error().describe();
        EXPECT_EQ(model.graph.inputs[0].dims->front(), Dimension::of(4)) << "unchanged on failure";
    }
}

TEST(SetBatchSizeLimits, BadSizesAndModelsWithoutInputsAreRefused) {
    Model model = test::model_from("agraph (float[4, 3] x) => (float[4, 3] y) { y = Neg(x) }");
    EXPECT_FALSE(set_batch_size(model, Dimension::of(0)));
    EXPECT_FALSE(set_batch_size(model, Dimension::of(-1)));
    Model scalar = test::model_from("agraph (float x) => (float y) { y = Neg(x) }");
    EXPECT_FALSE(set_batch_size(scalar, Dimension::of(2)));
}

} // namespace
} // namespace lathe
