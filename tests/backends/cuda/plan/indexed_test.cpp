// Operators whose places are computed, and integers: plans against the CPU engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

struct IndexedCase {
    const char* name;
    const char* text;
    std::vector<Shape> shapes;
    const char* kind; ///< what the plan holds
};
void PrintTo(const IndexedCase& value, std::ostream* out) { *out << value.name; }

const std::vector<IndexedCase>& cases() {
    static const std::vector<IndexedCase> all{
        {"GatherElements",
         "opset 18\ninput %x: float32[3, 6, 4]\ninput %i: int64[3, 2, 4]\ninput %six: int64[1]\n"
         "%m = Mod(%i, %six)\n%y = GatherElements(%x, %m) {axis = 1}\noutput %y: float32[3, 2, 4]\n",
         {{3, 6, 4}, {3, 2, 4}},
         "gather_elements axis=1"},
        {"TopK",
         "opset 18\ninput %x: float32[3, 9, 4]\ninput %k: int64[1]\n%y, %i = TopK(%x, %k) {axis = 1, largest = 0}\n"
         "output %y: float32[3, 5, 4]\noutput %i: int64[3, 5, 4]\n",
         {{3, 9, 4}},
         "top_k axis=1"},
        {"ArgMax",
         "opset 18\ninput %x: float32[3, 9, 4]\n%y = ArgMax(%x) {axis = -1, keepdims = 0}\noutput %y: int64[3, 9]\n",
         {{3, 9, 4}},
         "arg_extreme axis=2 mode=1"},
        {"ArgMin",
         "opset 18\ninput %x: float32[3, 9, 4]\n%y = ArgMin(%x) {axis = 1}\noutput %y: int64[3, 1, 4]\n",
         {{3, 9, 4}},
         "arg_extreme axis=1"},
        {"CumSum",
         "opset 18\ninput %x: float32[3, 9, 4]\ninput %axis: int64[1]\n"
         "%y = CumSum(%x, %axis) {exclusive = 1, reverse = 1}\noutput %y: float32[3, 9, 4]\n",
         {{3, 9, 4}},
         "cumulate axis=1"},
        {"Integers",
         "opset 18\ninput %i: int64[3, 5]\ninput %j: int64[5]\n%a = Mul(%i, %j)\n%b = Sub(%a, %j)\n%c = Neg(%b)\n"
         "%d = Max(%c, %i)\n%y = Cast(%d) {to = 6}\noutput %y: int32[3, 5]\n",
         {{3, 5}, {5}},
         "arithmetic"},
        {"Compare",
         "opset 18\ninput %i: int64[3, 5]\ninput %j: int64[5]\n%m = LessOrEqual(%i, %j)\n"
         "%y = Cast(%m) {to = 1}\noutput %y: float32[3, 5]\n",
         {{3, 5}, {5}},
         "arithmetic"},
        {"Trilu",
         "opset 18\ninput %x: float32[2, 5, 6]\ninput %k: int64[]\n%y = Trilu(%x, %k) {upper = 0}\n"
         "output %y: float32[2, 5, 6]\n",
         {{2, 5, 6}},
         "triangle"},
        {"Einsum",
         "opset 18\ninput %x: float32[2, 3, 5, 4]\ninput %y: float32[2, 6, 5, 4]\n"
         "%z = Einsum(%x, %y) {equation = \"bnid,bmid->bnmi\"}\noutput %z: float32[2, 3, 6, 5]\n",
         {{2, 3, 5, 4}, {2, 6, 5, 4}},
         "batched_gemm"},
        {"EinsumEllipsis",
         "opset 18\ninput %x: float32[3, 2, 5]\ninput %y: float32[3, 5, 4]\n"
         "%z = Einsum(%x, %y) {equation = \"...ij, ...jk\"}\noutput %z: float32[3, 2, 4]\n",
         {{3, 2, 5}, {3, 5, 4}},
         "batched_gemm"},
        {"PadReflect",
         "opset 18\ninput %x: float32[2, 3, 5, 4]\ninput %pads: int64[8]\n"
         "%z = Pad(%x, %pads) {mode = \"reflect\"}\noutput %z: float32[2, 3, 8, 7]\n",
         {{2, 3, 5, 4}},
         "pad axis=3 number=2 mode=1"},
        {"PadConstant",
         "opset 18\ninput %x: float32[2, 3, 5, 4]\ninput %pads: int64[8]\ninput %b_beside: float32[]\n"
         "%z = Pad(%x, %pads, %b_beside)\noutput %z: float32[2, 3, 8, 7]\n",
         {{2, 3, 5, 4}},
         "pad axis=2 number=1"},
        {"Tile",
         "opset 18\ninput %x: float32[2, 3, 5]\ninput %repeats: int64[3]\n"
         "%z = Tile(%x, %repeats)\noutput %z: float32[2, 6, 15]\n",
         {{2, 3, 5}},
         "pad axis=2 mode=3"},
        {"GridSample",
         "opset 20\ninput %x: float32[2, 3, 5, 4]\ninput %g: float32[2, 6, 7, 2]\n"
         "%z = GridSample(%x, %g) {align_corners = 1, mode = \"linear\"}\noutput %z: float32[2, 3, 6, 7]\n",
         {{2, 3, 5, 4}, {2, 6, 7, 2}},
         "grid_sample"},
        {"Lstm",
         "opset 18\ninput %x: float32[6, 2, 5]\ninput %w_i: float32[2, 12, 5]\ninput %w_r: float32[2, 12, 3]\n"
         "input %b_all: float32[2, 24]\ninput %h: float32[2, 2, 3]\ninput %c: float32[2, 2, 3]\n"
         "%y, %yh, %yc = LSTM(%x, %w_i, %w_r, %b_all, , %h, %c) {hidden_size = 3, direction = \"bidirectional\"}\n"
         "output %y: float32[6, 2, 2, 3]\noutput %yh: float32[2, 2, 3]\noutput %yc: float32[2, 2, 3]\n",
         {{6, 2, 5}, {2, 2, 3}, {2, 2, 3}},
         "lstm initial"},
        {"Gru",
         "opset 18\ninput %x: float32[6, 2, 5]\ninput %w_i: float32[1, 9, 5]\ninput %w_r: float32[1, 9, 3]\n"
         "input %b_all: float32[1, 18]\n"
         "%y, %yh = GRU(%x, %w_i, %w_r, %b_all) {hidden_size = 3, linear_before_reset = 1}\n"
         "output %y: float32[6, 1, 2, 3]\noutput %yh: float32[1, 2, 3]\n",
         {{6, 2, 5}},
         "gru linear_before_reset"},
        {"EinsumOfOne",
         "opset 18\ninput %x: float32[2, 3, 5]\n%z = Einsum(%x) {equation = \"ijk -> ki\"}\n"
         "output %z: float32[5, 2]\n",
         {{2, 3, 5}},
         "reduce"},
    };
    return all;
}

/// Constants that an operator must have: "k", "axis", "six".
Model model_of(const IndexedCase& test) {
    Model model = network(test.text);
    const auto fix = [&](const char* name, std::int64_t value) {
        if (const ValueInfo* info = model.graph.find_input(name)) {
            const Shape shape = info->shape().value_or(Shape{});
            model.graph.initializers.insert_or_assign(name, Tensor::of_int64s(name, shape, std::span(&value, 1)));
            std::erase_if(model.graph.inputs, [&](const ValueInfo& input) { return input.name == name; });
        }
    };
    fix("k", std::string(test.name) == "TopK" ? 5 : 1);
    fix("axis", 1);
    fix("six", 6);
    const auto fix_all = [&](const char* name, const std::vector<std::int64_t>& numbers) {
        if (model.graph.find_input(name) == nullptr) return;
        const Shape shape{static_cast<std::int64_t>(numbers.size())};
        model.graph.initializers.insert_or_assign(name, Tensor::of_int64s(name, shape, numbers));
        std::erase_if(model.graph.inputs, [&](const ValueInfo& input) { return input.name == name; });
    };
    fix_all("pads", {0, 0, 1, 2, 0, 0, 2, 1});
    fix_all("repeats", {1, 2, 3});
    return model;
}

class IndexedOperators : public testing::TestWithParam<IndexedCase> {};

TEST_P(IndexedOperators, GiveWhatTheCpuGives) {
    const IndexedCase& test = GetParam();
    const Model model = model_of(test);
    auto inputs = random_inputs(model, test.shapes);
    const cuda::Plan plan = plan_of(model, Precision::float32, test.shapes);
    EXPECT_THAT(cuda::print(plan), testing::HasSubstr(test.kind));
    const auto expected = run_on_cpu(model, inputs);
    const auto found = interpreted(plan, inputs, true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].shape, expected[i].shape);
        if (found[i].type == DataType::float32) {
            EXPECT_LT(relative_difference(expected[i], found[i]), 1e-5) << cuda::print(plan);
        } else if (found[i].type == expected[i].type) {
            EXPECT_EQ(found[i].bytes, expected[i].bytes) << cuda::print(plan);
        }
    }
}
INSTANTIATE_TEST_SUITE_P(All, IndexedOperators, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace lathe::test
