// What OpenVINO refuses is told with the node, its operator and a cure, not in OpenVINO's own words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Refusal {
    std::string name;
    std::string nodes;
    ErrorCode code;
    std::string message, where;
};

std::vector<Refusal> refusals() {
    return {
        {"Sequence",
         "%s = SequenceConstruct(%x, %x) {name = \"pair\"}\n%t = SequenceErase(%s, %one)\n%y = SequenceAt(%t, %one)\n",
         ErrorCode::unsupported, "OpenVINO has no form of SequenceConstruct", "node pair"},
        {"NoRule", "%d = Det(%x) {name = \"determinant\"}\n%y = Add(%x, %d)\n", ErrorCode::unsupported,
         "OpenVINO has no form of Det", "node determinant"},
        {"OtherDomain", "%y = com.example::Foo(%x) {name = \"mystery\"}\n", ErrorCode::unsupported,
         "OpenVINO has no form of com.example::Foo", "node mystery"},
        {"SecondOfTwo",
         "%t = Resize(%x, %none, %scales) {name = \"good\", mode = \"nearest\", "
         "coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"}\n"
         "%y = Resize(%t, %none, %scales) {name = \"bad\", mode = \"nearest\", "
         "coordinate_transformation_mode = \"half_pixel_symmetric\"}\n",
         ErrorCode::unsupported, "OpenVINO has no form of Resize as it is used here", "node bad"},
        {"RankThatAnIfLeavesOpen",
         "%s = ReduceSum(%x) {keepdims = 0}\n%b = Cast(%s) {to = 9}\n"
         "%r = If(%b) {name = \"asked\", then_branch = graph {\n%t = Mul(%x, %slope)\noutput %t: float32[1, 2, 2]\n}, "
         "else_branch = graph {\n%e = Identity(%x)\noutput %e: float32[2, 2]\n}}\n"
         "%y = Conv(%r, %slope) {name = \"deep\"}\n",
         ErrorCode::unsupported, "the input of this Conv has, and an If (asked) leaves that open", "node deep"},
        {"Malformed", "%y = Conv(%x, %scales) {name = \"flat\"}\n", ErrorCode::parse_error, "not valid ONNX", ""},
        {"TopKOfTooMany", "%y, %i = TopK(%x, %five) {name = \"top\"}\n", ErrorCode::parse_error,
         "TopK asks for 5 values of an axis that has 2", "node top"},
        {"NoInputs", "%y = Relu() {name = \"hungry\"}\n", ErrorCode::parse_error,
         "Relu has 0 inputs, and takes at least 1", "node hungry"},
        {"TooManyInputs", "%y = Relu(%x, %x) {name = \"fed\"}\n", ErrorCode::parse_error,
         "Relu has 2 inputs, and takes at most 1", "node fed"},
        {"IntegersAreNoFloats",
         "%i = Cast(%x) {to = 6}\n%h = HardSwish(%i) {name = \"swish\"}\n%y = Cast(%h) {to = 1}\n",
         ErrorCode::parse_error, "ONNX does not define HardSwish for int32, which i is", "node swish"},
        {"SplitNegative", "%y, %z = Split(%x, %parts) {name = \"cut\"}\n", ErrorCode::parse_error,
         "a Split into a part of -1", "node cut"},
        {"ExpandNegative", "%y = Expand(%x, %wide) {name = \"wider\"}\n", ErrorCode::parse_error,
         "Expand is given the size -2147483648", "node wider"},
        {"RangeOfTooManyForInference",
         "%r = Range(%least, %one, %back) {name = \"long\"}\n%f = Cast(%r) {to = 1}\n%s = ReduceSum(%f)\n%y = Add(%x, "
         "%s)\n",
         ErrorCode::parse_error, "has more numbers before its end than 64 bits count", "node long"},
        {"SlopeLargerThanInput", "%y = PRelu(%x, %slope) {name = \"leaky\"}\n", ErrorCode::parse_error,
         "the slope of PRelu is of shape", "node leaky"},
        {"ExpandToNothing", "%e = Expand(%x, %empty) {name = \"gone\"}\n%s = ReduceSum(%e)\n%y = Add(%x, %s)\n",
         ErrorCode::unsupported, "OpenVINO computes an Expand to nothing otherwise than ONNX defines it", "node gone"},
        {"GatherBeyond", "%y = Gather(%x, %five) {name = \"pick\"}\n", ErrorCode::parse_error,
         "the constant index 5 of Gather is outside an axis of 2", "node pick"},
    };
}

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesNodeOperatorAndCure) {
    const Refusal& refusal = GetParam();
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    const auto compiled = (*backend)->compile(
        model_from_text("opset 19\nopset \"com.example\" 1\ninput %x: float32[2, 2]\n"
                        "const %scales: float32[2] = {2.0, 2.0}\nconst %none: float32[0] = {}\n"
                        "const %five: int64[1] = {5}\nconst %one: int64[] = {1}\nconst %parts: int64[2] = {-1, 3}\n"
                        "const %empty: int64[3] = {0, 2, 2}\n"
                        "const %slope: float32[1, 1, 2] = {0.5, 0.25}\n"
                        "const %wide: int64[2] = {-2147483648, 2}\n"
                        "const %least: int64[] = {-9223372036854775808}\nconst %back: int64[] = {-2}\n" +
                        refusal.nodes + "output %y: float32[?, ?]\n"),
        {});
    ASSERT_FALSE(compiled);
    const Error& error = compiled.error();
    EXPECT_EQ(error.code, refusal.code) << error.describe();
    EXPECT_THAT(error.message, HasSubstr(refusal.message));
    EXPECT_THAT(error.where, HasSubstr(refusal.where));
    if (refusal.code == ErrorCode::unsupported) {
        EXPECT_FALSE(error.hint.empty());
    }
    for (const char* raw : {"FrontEnd", "Frontend", "OpConversion", "No conversion rule", "Check '", "validating ONNX"})
        EXPECT_THAT(error.describe(), Not(HasSubstr(raw)));
}

INSTANTIATE_TEST_SUITE_P(OpenVino, RefusalTest, testing::ValuesIn(refusals()),
                         [](const auto& info) { return info.param.name; });

// Its result is that of one sample, whatever the batch.
TEST(Refusals, ResizeToAFixedBatch) {
    const Model model = model_from_text("opset 17\ninput %x: float32[N, 1, 4, 12]\nconst %none: float32[0] = {}\n"
                                        "const %sizes: int64[4] = {1, 1, 4, 7}\n"
                                        "%y = Resize(%x, %none, %none, %sizes) {name = \"one\", mode = \"nearest\"}\n"
                                        "output %y: float32[1, 1, 4, 7]\n");
    CompileOptions options;
    options.shapes["x"] = {{1, 1, 4, 12}, {2, 1, 4, 12}, {4, 1, 4, 12}};
    const auto compiled = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_FALSE(compiled);
    EXPECT_THAT(compiled.error().message, HasSubstr("gives an axis of open size in front of them a size of its own"));
    EXPECT_THAT(compiled.error().where, HasSubstr("node one"));
    EXPECT_THAT(compiled.error().hint, HasSubstr("--shape"));
}

TEST(Refusals, TooManyBodiesToRead) {
    Model model = model_from_text("opset 17\ninput %x: float32[2]\ninput %c: bool[]\n%y = Identity(%x)\n"
                                  "output %y: float32[2]\n");
    Graph inner = model.graph;
    inner.inputs.clear();
    for (int level = 0; level < 12; ++level) { // 2 bodies, then 6, 14, ... 8190
        Node choice;
        choice.op_type = "If";
        choice.inputs = {"c"};
        choice.outputs = {"y"};
        choice.set("then_branch", GraphBox(inner));
        choice.set("else_branch", GraphBox(inner));
        inner.nodes.clear();
        inner.nodes.push_back(std::make_unique<Node>(std::move(choice)));
    }
    model.graph.nodes = std::move(inner.nodes);
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    const auto compiled = (*backend)->compile(model, {});
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code, ErrorCode::unsupported) << compiled.error().describe();
    EXPECT_THAT(compiled.error().message, HasSubstr("8190 bodies of If, Loop and Scan"));
}

} // namespace
} // namespace lathe::test
