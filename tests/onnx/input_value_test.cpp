#include <gmock/gmock.h>

#include "onnx/input_value.hpp"
#include "onnx/models.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model with_switch() {
    return test::model_from("agraph (float[n] x, int64[2] k, bool b, float s) => (float[n] y) "
                            "{ a = Mul(x, s) y = Identity(a) }");
}

TEST(SetInputConstants, TheyAreNoInputsAnyMore) {
    Model model = with_switch();
    const auto result = set_input_constants(model, {"k=3,-4", "b=true", "s=0.5"});
    ASSERT_TRUE(result) << result.error().describe();
    ASSERT_EQ(model.graph.inputs.size(), 1U);
    EXPECT_EQ(model.graph.inputs[0].name, "x");
    EXPECT_THAT(model.graph.constant("k")->to_int64s(), ElementsAre(3, -4));
    EXPECT_THAT(model.graph.constant("b")->to_int64s(), ElementsAre(1));
    EXPECT_EQ(model.graph.constant("b")->shape(), Shape{});
    EXPECT_THAT(model.graph.constant("s")->to_floats(), ElementsAre(0.5F));
    EXPECT_TRUE(check_onnx(model, {true}));
}

TEST(SetInputConstants, OneValueFillsAll) {
    Model model = with_switch();
    ASSERT_TRUE(set_input_constants(model, {"k=7"}));
    EXPECT_THAT(model.graph.constant("k")->to_int64s(), ElementsAre(7, 7));
}

struct RefusedValue {
    const char* name;
    const char* constant;
    const char* said;
};
void PrintTo(const RefusedValue& c, std::ostream* out) { *out << c.name; }

class RefusedConstant : public testing::TestWithParam<RefusedValue> {};

TEST_P(RefusedConstant, LeavesTheModelAsItWas) {
    Model model = with_switch();
    const auto result = set_input_constants(model, {"s=2", GetParam().constant});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().describe(), HasSubstr(GetParam().said));
    EXPECT_EQ(model.graph.inputs.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedConstant,
                         testing::Values(RefusedValue{"NoSuchInput", "z=1", "no input z"},
                                         RefusedValue{"NoValue", "k", "no INPUT=VALUE"},
                                         RefusedValue{"NoName", "=1", "no INPUT=VALUE"},
                                         RefusedValue{"Empty", "k=", "no element of type int64"},
                                         RefusedValue{"Word", "k=two", "no element of type int64"},
                                         RefusedValue{"Fraction", "k=1.5", "no element of type int64"},
                                         RefusedValue{"NoBool", "b=2", "no element of type bool"},
                                         RefusedValue{"Count", "k=1,2,3", "2 elements, 3 were given"},
                                         RefusedValue{"OpenSize", "x=1", "open sizes"}),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace lathe
