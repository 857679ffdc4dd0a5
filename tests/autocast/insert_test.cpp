#include "autocast/insert.hpp"

#include <gtest/gtest.h>

#include "graphs.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using test::cast_graph;
using test::planned;
using test::seen;

/// The model after the plan, as text without value infos and metadata.
std::string cast_text(const Model& model, const RangesFile& ranges, const AutocastOptions& options = {}) {
    const AutocastPlan plan = planned(model, ranges, options);
    const auto made = insert_casts(model, plan, options);
    if (!made) return made.error().describe();
    const auto sound = check_onnx(made->model, {.full = true});
    EXPECT_TRUE(sound) << sound.error().describe();
    return print(made->model);
}

/// Everything in FP16 but one node: few of these small graphs are worth it by themselves.
Result<CastModel> cast_all_but(const Model& model, const std::string& kept, CastReason why) {
    AutocastPlan plan = planned(model, seen(model));
    for (CastDecision& decision : plan.decisions)
        decision.reason = decision.node == kept ? why : CastReason::cast;
    auto made = insert_casts(model, plan, {});
    EXPECT_TRUE(!made || check_onnx(made->model, {.full = true}));
    return made;
}

/// A graph as `print` writes it.
std::string text_of(const std::string& statements) {
    auto model = parse_graph_text("opset 18\nir 8\n" + statements);
    EXPECT_TRUE(model) << (model ? "" : model.error().describe());
    if (!model) return "";
    model->graph.name = "tested";
    return print(*model);
}

const char* const before = R"(opset 18
ir 8
input %x: float32[2]
const %w: float32[2] = {0.5, 2.0}
%a = Mul(%x, %w) {name = "a"}
%b = Exp(%a) {name = "b"}
%y = Add(%b, %a) {name = "y"}
output %y: float32[2]
)";

TEST(Insert, APlainModelHasCastsAtItsEdgesAlone) {
    const Model model = cast_graph(before);
    EXPECT_EQ(cast_text(model, seen(model)), text_of(R"(input %x: float32[2]
const %w_fp16: float16[2] = {0.5, 2.0}
%x_fp16 = Cast(%x) {name = "autocast/x_fp16", to = 10}
%a_fp16 = Mul(%x_fp16, %w_fp16) {name = "a"}
%b_fp16 = Exp(%a_fp16) {name = "b"}
%y_fp16 = Add(%b_fp16, %a_fp16) {name = "y"}
%y = Cast(%y_fp16) {name = "autocast/y", to = 1}
output %y: float32[2]
)"));
}

TEST(Insert, AValueReadInBothTypesIsCastOnce) {
    const Model model = cast_graph(before);
    const auto made = cast_all_but(model, "b", CastReason::excluded_by_user);
    ASSERT_TRUE(made) << made.error().describe();
    EXPECT_EQ(made->casts, 4U);
    EXPECT_EQ(print(made->model), text_of(R"(input %x: float32[2]
const %w_fp16: float16[2] = {0.5, 2.0}
%x_fp16 = Cast(%x) {name = "autocast/x_fp16", to = 10}
%a_fp16 = Mul(%x_fp16, %w_fp16) {name = "a"}
%a = Cast(%a_fp16) {name = "autocast/a", to = 1}
%b = Exp(%a) {name = "b"}
%b_fp16 = Cast(%b) {name = "autocast/b_fp16", to = 10}
%y_fp16 = Add(%b_fp16, %a_fp16) {name = "y"}
%y = Cast(%y_fp16) {name = "autocast/y", to = 1}
output %y: float32[2]
)"));
}

TEST(Insert, InputsAndOutputsTakeTheTypeOnRequest) {
    const Model model = cast_graph(before);
    AutocastOptions options;
    options.io_type = DataType::float16;
    EXPECT_EQ(cast_text(model, seen(model), options), text_of(R"(input %x: float16[2]
const %w_fp16: float16[2] = {0.5, 2.0}
%a_fp16 = Mul(%x, %w_fp16) {name = "a"}
%b_fp16 = Exp(%a_fp16) {name = "b"}
%y = Add(%b_fp16, %a_fp16) {name = "y"}
output %y: float16[2]
)"));
    // All of it kept in FP32, and the types at the edges changed all the same.
    options.exclude = {"Mul", "Exp", "Add"};
    EXPECT_EQ(cast_text(model, seen(model), options), text_of(R"(input %x: float16[2]
const %w: float32[2] = {0.5, 2.0}
%x_fp32 = Cast(%x) {name = "autocast/x_fp32", to = 1}
%a = Mul(%x_fp32, %w) {name = "a"}
%b = Exp(%a) {name = "b"}
%y_fp32 = Add(%b, %a) {name = "y"}
%y = Cast(%y_fp32) {name = "autocast/y", to = 10}
output %y: float16[2]
)"));
}

TEST(Insert, EdgesThatDoNotFitAreRefused) {
    const Model model = cast_graph(before);
    AutocastOptions options;
    options.io_type = DataType::float16;
    const RangesFile ranges = seen(model, {{"y", {1e5F}}});
    EXPECT_EQ(insert_casts(model, planned(model, ranges, options), options).error().code, ErrorCode::out_of_range);
    options.io_type = DataType::bfloat16;
    EXPECT_EQ(insert_casts(model, planned(model, seen(model), options), options).error().code,
              ErrorCode::invalid_argument);
}

TEST(Insert, ScalesOfResizeAndExistingCastsKeepTheirMeaning) {
    const Model model = cast_graph(R"(opset 18
ir 8
input %x: float32[1, 1, 2, 2]
input %mask: int64[1, 1, 4, 4]
const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}
%up = Resize(%x, , %scales) {name = "up", mode = "nearest"}
%kept = Cast(%mask) {name = "kept", to = 1}
%y = Mul(%up, %kept) {name = "y"}
output %y: float32[1, 1, 4, 4]
)");
    EXPECT_EQ(cast_text(model, seen(model)), text_of(R"(input %x: float32[1, 1, 2, 2]
input %mask: int64[1, 1, 4, 4]
const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}
%x_fp16 = Cast(%x) {name = "autocast/x_fp16", to = 10}
%up_fp16 = Resize(%x_fp16, , %scales) {name = "up", mode = "nearest"}
%kept_fp16 = Cast(%mask) {name = "kept", to = 10}
%y_fp16 = Mul(%up_fp16, %kept_fp16) {name = "y"}
%y = Cast(%y_fp16) {name = "autocast/y", to = 1}
output %y: float32[1, 1, 4, 4]
)"));
}

TEST(Insert, BodiesReadTheFp32Form) {
    const Model model = cast_graph(R"(opset 18
ir 8
input %x: float32[2]
input %which: bool[]
const %w: float32[2] = {0.5, 2.0}
%a = Mul(%x, %w) {name = "a"}
%y = If(%which) {name = "y", then_branch = graph {
  name "then"
  %p = Neg(%a)
  output %p: float32[2]
}, else_branch = graph {
  name "else"
  %q = Neg(%w)
  output %q: float32[2]
}}
output %y: float32[2]
)");
    const auto made = cast_all_but(model, "y", CastReason::has_body);
    ASSERT_TRUE(made) << made.error().describe();
    EXPECT_NE(made->model.graph.initializer("w"), nullptr) << "a body reads it";
    EXPECT_NE(made->model.graph.initializer("w_fp16"), nullptr);
}

TEST(Insert, ASecondRunMakesTheSame) {
    const Model model = cast_graph(before);
    EXPECT_EQ(cast_text(model, seen(model)), cast_text(model, seen(model)));
}

} // namespace
} // namespace lathe
