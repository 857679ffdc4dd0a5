#include "backends/openvino/batch_independence.hpp"

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "onnx/onnx.hpp"

namespace lathe::test {
namespace {

struct Case {
    const char* name;
    bool independent;
    const char* body; ///< from %x: float32[N, 4, 6] to %y
};

/// GoogleTest names a parameter by this.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BatchIndependenceTest : public testing::TestWithParam<Case> {};

TEST_P(BatchIndependenceTest, JudgesTheGraph) {
    Model model = model_from_text(std::string("opset 18\ninput %x: float32[N, 4, 6]\n") + GetParam().body +
                                  "output %y: float32[]\n");
    model.graph.outputs[0].dims.reset();
    ASSERT_TRUE(infer_shapes(model)) << GetParam().body;
    const auto answer = openvino::batch_independence(model);
    EXPECT_EQ(answer.independent, GetParam().independent) << answer.reason;
    EXPECT_EQ(answer.reason.empty(), answer.independent);
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchIndependenceTest,
    testing::Values(
        Case{"relu", true, "%y = Relu(%x)\n"},
        Case{"reduce_inner", true, "const %a: int64[1] = {-1}\n%y = ReduceMean(%x, %a)\n"},
        Case{"reduce_batch", false, "const %a: int64[1] = {0}\n%y = ReduceMean(%x, %a)\n"},
        Case{"reduce_batch_from_the_end", false, "const %a: int64[1] = {-3}\n%y = ReduceMean(%x, %a)\n"},
        Case{"reduce_all", false, "%y = ReduceMean(%x)\n"},
        Case{"softmax_last", true, "%y = Softmax(%x) {axis = -1}\n"},
        Case{"softmax_batch", false, "%y = Softmax(%x) {axis = 0}\n"},
        Case{"softmax_batch_from_the_end", false, "%y = Softmax(%x) {axis = -3}\n"},
        Case{"reshape_zero", true, "const %s: int64[2] = {0, -1}\n%y = Reshape(%x, %s)\n"},
        Case{"reshape_minus_one_is_the_batch", true, "const %s: int64[2] = {-1, 24}\n%y = Reshape(%x, %s)\n"},
        Case{"reshape_minus_one_is_not", false, "const %s: int64[2] = {-1, 12}\n%y = Reshape(%x, %s)\n"},
        Case{"reshape_fixed", false, "const %s: int64[2] = {2, -1}\n%y = Reshape(%x, %s)\n"},
        Case{"reshape_by_shape_chain", true,
             "const %z: int64[1] = {0}\nconst %m: int64[1] = {-1}\n%s = Shape(%x)\n%n = Gather(%s, %z)\n"
             "%t = Concat(%n, %m) {axis = 0}\n%y = Reshape(%x, %t)\n"},
        Case{"reshape_by_wrong_chain", false,
             "const %z: int64[1] = {1}\nconst %m: int64[1] = {-1}\n%s = Shape(%x)\n%n = Gather(%s, %z)\n"
             "%t = Concat(%n, %m) {axis = 0}\n%y = Reshape(%x, %t)\n"},
        Case{"transpose_inner", true, "%y = Transpose(%x) {perm = [0, 2, 1]}\n"},
        Case{"transpose_batch", false, "%y = Transpose(%x) {perm = [1, 0, 2]}\n"},
        Case{"transpose_default", false, "%y = Transpose(%x)\n"}, Case{"add_itself", true, "%y = Add(%x, %x)\n"},
        Case{"add_across_samples", false,
             "const %s: int64[4] = {-1, 1, 4, 6}\n%r = Reshape(%x, %s)\n%y = Add(%x, %r)\n"},
        Case{"concat_inner", true, "%y = Concat(%x, %x) {axis = 1}\n"},
        Case{"concat_batch", false, "%y = Concat(%x, %x) {axis = 0}\n"},
        Case{"cumulative_sum_has_no_rule", false, "const %a: int64[1] = {1}\n%y = CumSum(%x, %a)\n"},
        Case{"dynamic_quantization_sees_all_samples", false,
             "%q, %s, %z = DynamicQuantizeLinear(%x)\n%y = DequantizeLinear(%q, %s, %z)\n"},
        Case{"batch_size_as_a_number", false,
             "const %z: int64[1] = {0}\n%s = Shape(%x)\n%n = Gather(%s, %z)\n%f = Cast(%n) {to = 1}\n%y = Div(%x, "
             "%f)\n"}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
