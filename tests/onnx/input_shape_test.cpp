#include <gmock/gmock.h>

#include "onnx/models.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

Model two_inputs() {
    return test::model_from("agraph (float[batch, length] x, float[batch, length] m) => (float[batch, length] y) "
                            "{ y = Mul(x, m) }");
}

TEST(SetInputShapes, ANamedSizeHoldsInAllInputsAndOutputs) {
    Model model = two_inputs();
    const auto result = set_input_shapes(model, {"x:?x128"});
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(model.graph.inputs[0].shape(), (Shape{-1, 128}));
    EXPECT_EQ(model.graph.inputs[1].shape(), (Shape{-1, 128}));
    EXPECT_EQ(model.graph.outputs[0].shape(), (Shape{-1, 128}));
    EXPECT_TRUE(check_onnx(model, {true}));
}

TEST(SetInputShapes, AnOnlyInputNeedsNoName) {
    Model model = test::model_from("agraph (float[?, 3] x) => (float[?, 3] y) { y = Neg(x) }");
    ASSERT_TRUE(set_input_shapes(model, {"4x3"}));
    EXPECT_EQ(model.graph.inputs[0].shape(), (Shape{4, 3}));
    EXPECT_EQ(model.graph.info("y")->shape(), (Shape{4, 3}));
}

TEST(SetInputShapes, FormulasOfAFixedNameAreFoundAnew) {
    Model model = test::model_from("agraph (float[n, width] x) => (float[n, m] y) { y = Concat <axis = 1> (x, x) }");
    (*model.graph.outputs[0].dims)[1] = Dimension::named("2*width");
    ASSERT_TRUE(set_input_shapes(model, {"?x5"}));
    EXPECT_EQ(model.graph.outputs[0].shape(), (Shape{-1, 10}));
    // Of another name that merely begins alike.
    model = test::model_from("agraph (float[n, width] x) => (float[n, m] y) { y = Concat <axis = 1> (x, x) }");
    (*model.graph.outputs[0].dims)[0] = Dimension::named("widths");
    ASSERT_TRUE(set_input_shapes(model, {"?x5"}));
    EXPECT_EQ((*model.graph.outputs[0].dims)[0].symbol, "widths");
}

struct Refused {
    const char* name;
    std::vector<std::string> shapes;
    const char* said;
};
void PrintTo(const Refused& c, std::ostream* out) { *out << c.name; }

class RefusedShape : public testing::TestWithParam<Refused> {};

TEST_P(RefusedShape, LeavesTheModelAsItWas) {
    Model model = two_inputs();
    const auto result = set_input_shapes(model, GetParam().shapes);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().describe(), HasSubstr(GetParam().said));
    EXPECT_EQ(model.graph.inputs[0].shape(), (Shape{-1, -1}));
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedShape,
                         testing::Values(Refused{"NoSuchInput", {"z:1x2"}, "no input z"},
                                         Refused{"NoName", {"1x2"}, "several inputs"},
                                         Refused{"Rank", {"x:1x2x3"}, "2 axes, 3 were given"},
                                         Refused{"Contradiction", {"x:?x8", "m:?x9"}, "as 8 and as 9"},
                                         Refused{"Zero", {"x:0x8"}, "no shape"}, Refused{"Word", {"x:axb"}, "no shape"},
                                         Refused{"Empty", {"x:"}, "no shape"},
                                         Refused{"Huge", {"x:?x99999999999999999999"}, "no shape"}),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace lathe
