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
        {"SequenceOfParts",
         "%s = SequenceConstruct(%x, %x) {name = \"pair\"}\n%a = SequenceAt(%s, %one)\n%t = SequenceInsert(%s, %a)\n"
         "%y = ConcatFromSequence(%t) {axis = 0}\n",
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
        {"Malformed", "%y = Conv(%x, %scales) {name = \"flat\"}\n", ErrorCode::parse_error, "not valid ONNX", ""},
        {"TopKOfTooMany", "%y, %i = TopK(%x, %five) {name = \"top\"}\n", ErrorCode::parse_error,
         "TopK asks for 5 values of an axis that has 2", "node top"},
        {"GatherBeyond", "%y = Gather(%x, %five) {name = \"pick\"}\n", ErrorCode::parse_error,
         "the constant index 5 of Gather is outside an axis of 2", "node pick"},
    };
}

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesNodeOperatorAndCure) {
    const Refusal& refusal = GetParam();
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    const auto compiled =
        (*backend)->compile(model_from_text("opset 19\nopset \"com.example\" 1\ninput %x: float32[2, 2]\n"
                                            "const %scales: float32[2] = {2.0, 2.0}\nconst %none: float32[0] = {}\n"
                                            "const %five: int64[1] = {5}\nconst %one: int64[] = {1}\n" +
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

} // namespace
} // namespace lathe::test
