// Operators whose places are computed, and integers: plans against the CPU engine.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "backends/cuda/plan/rows.hpp"

namespace lathe::test {
namespace {

struct IndexedCase {
    const char* name;
    const char* text;
    std::vector<Shape> shapes;
    const char* kind; ///< what the plan holds
};
void PrintTo(const IndexedCase& value, std::ostream* out) { *out << value.name; }

const std::vector<IndexedCase>& indexed_cases() {
    static const std::vector<IndexedCase> all{
        {"GatherElements",
         "opset 18\ninput %x: float32[3, 6, 4]\ninput %i: int64[3, 2, 4]\ninput %six: int64[1]\n"
         "%m = Mod(%i, %six)\n%y = GatherElements(%x, %m) {axis = 1}\noutput %y: float32[3, 2, 4]\n",
         {{3, 6, 4}, {3, 2, 4}},
         "gather_elements axis=1"},
        {"GatherOfOneRowAgain", // of a fixed table indices that repeat are told once
         "opset 18\ninput %x: float32[2, 3, 5]\nconst %i: int64[4] = {1, 1, 1, 1}\n"
         "%y = Gather(%x, %i) {axis = 1}\noutput %y: float32[2, 4, 5]\n",
         {{2, 3, 5}},
         "constant %1:int64[4]"},
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
        {"IntegerSum",
         "opset 18\ninput %i: int64[3, 4, 5]\nconst %axes: int64[1] = {1}\n"
         "%y = ReduceSum(%i, %axes) {keepdims = 0}\noutput %y: int64[3, 5]\n",
         {{3, 4, 5}},
         "cumulate axis=1"},
        {"IntegerSumOfAxesApart",
         "opset 18\ninput %i: int32[3, 4, 5]\nconst %axes: int64[2] = {0, -1}\n"
         "%y = ReduceSum(%i, %axes)\noutput %y: int32[1, 4, 1]\n",
         {{3, 4, 5}},
         "cumulate axis=1"},
        {"IntegerMaximumOfAll",
         "opset 18\ninput %i: int64[3, 4, 5]\n%y = ReduceMax(%i) {keepdims = 0}\noutput %y: int64[]\n",
         {{3, 4, 5}},
         "arg_extreme axis=1 mode=1"},
        {"IntegerMinimum",
         "opset 13\ninput %i: int32[3, 4, 5]\n%y = ReduceMin(%i) {axes = [-1], keepdims = 1}\n"
         "output %y: int32[3, 4, 1]\n",
         {{3, 4, 5}},
         "arg_extreme axis=1"},
        {"LargeConstant", // which folding leaves as it is: it is known before it runs
         "opset 18\ninput %x: float32[1, 1200]\nconst %shape: int64[2] = {1200, 1200}\n"
         "%c = ConstantOfShape(%shape) {value = float32[1] {1.5}}\n%y = MatMul(%x, %c)\noutput %y: float32[1, 1200]\n",
         {{1, 1200}},
         "computed|"},
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
        {"RoiAlign",
         "opset 16\ninput %x: float32[6, 5, 9, 8]\ninput %r: float32[7, 4]\ninput %i: int64[7]\ninput %six: int64[1]\n"
         "const %wide: float32[] = {9.0}\n%m = Mod(%i, %six)\n%a = Abs(%r)\n%b = Mul(%a, %wide)\n"
         "%y = RoiAlign(%x, %b, %m) {output_height = 3, output_width = 2, sampling_ratio = 2, spatial_scale = 0.5}\n"
         "output %y: float32[7, 5, 3, 2]\n",
         {{6, 5, 9, 8}, {7, 4}, {7}},
         "roi_align"},
        {"RoiAlignOfAConvolution",
         "opset 16\ninput %x: float32[2, 5, 9, 8]\ninput %r: float32[7, 4]\ninput %w_k: float32[7, 5, 3, 3]\n"
         "const %m: int64[7] = {0, 1, 0, 1, 1, 0, 0}\nconst %wide: float32[] = {9.0}\n%a = Abs(%r)\n"
         "%b = Mul(%a, %wide)\n%c = Conv(%x, %w_k) {pads = [1, 1, 1, 1]}\n"
         "%d = RoiAlign(%c, %b, %m) {output_height = 3, output_width = 4, sampling_ratio = 2, spatial_scale = 1.0, "
         "coordinate_transformation_mode = \"output_half_pixel\"}\n%y = Relu(%d)\noutput %y: float32[7, 7, 3, 4]\n",
         {{2, 5, 9, 8}, {7, 4}},
         "[7,7,3,4]nhwc"},
        {"NonMaxSuppression",
         "opset 18\ninput %x: float32[1, 40, 4]\ninput %s: float32[1, 3, 40]\nconst %most: int64[1] = {9}\n"
         "const %overlap: float32[1] = {0.3}\nconst %least: float32[1] = {0.2}\nconst %row: int64[1] = {1}\n"
         "%n = NonMaxSuppression(%x, %s, %most, %overlap, %least)\nconst %last: int64[1] = {2}\n"
         "const %first: int64[1] = {0}\nconst %flat: int64[1] = {-1}\nconst %three: int64[1] = {3}\n"
         "const %boxes: int64[2] = {40, 4}\n%c = Slice(%n, %last, %three, %row)\n%k = Reshape(%c, %flat)\n"
         "%b = Reshape(%x, %boxes)\n%p = Gather(%b, %k) {axis = 0}\n"
         "output %n: int64[rows, 3]\noutput %p: float32[rows, 4]\n",
         {{1, 40, 4}, {1, 3, 40}},
         "counts axis 0"},
        {"NonZero",
         "opset 18\ninput %i: int64[3, 5]\nconst %three: int64[] = {3}\n%m = Mod(%i, %three)\n%y = NonZero(%m)\n"
         "%t = Transpose(%y) {perm = [1, 0]}\noutput %y: int64[2, places]\noutput %t: int64[places, 2]\n",
         {{3, 5}},
         "counts axis 1"},
        {"Compress",
         "opset 18\ninput %x: float32[3, 5]\ninput %i: int64[5]\nconst %two: int64[] = {7}\n%c = Less(%i, %two)\n"
         "%y = Compress(%x, %c) {axis = 1}\noutput %y: float32[3, kept]\n",
         {{3, 5}, {5}},
         "nonzero"},
        {"ResizeOfAxes",
         "opset 18\ninput %x: float32[2, 5, 7]\nconst %s: float32[2] = {1.5, 2.0}\n"
         "%y = Resize(%x, , %s) {mode = \"linear\", axes = [2, 0]}\noutput %y: float32[4, 5, 10]\n",
         {{2, 5, 7}},
         "gemm"},
        {"ResizeCubicOfOneDimension",
         "opset 18\ninput %x: float32[2, 3, 9]\nconst %s: int64[3] = {2, 3, 5}\n"
         "%y = Resize(%x, , , %s) {mode = \"cubic\", coordinate_transformation_mode = \"align_corners\"}\n"
         "output %y: float32[2, 3, 5]\n",
         {{2, 3, 9}},
         "gemm"},
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
        {"LstmOfLengths",
         "opset 18\ninput %x: float32[6, 3, 5]\ninput %i: int64[3]\ninput %w_i: float32[2, 12, 5]\n"
         "input %w_r: float32[2, 12, 3]\ninput %b_all: float32[2, 24]\ninput %h: float32[2, 3, 3]\n"
         "input %c: float32[2, 3, 3]\nconst %five: int64[] = {5}\nconst %one: int64[] = {1}\n"
         "%m = Mod(%i, %five)\n%n = Add(%m, %one)\n%l = Cast(%n) {to = 6}\n"
         "%y, %yh, %yc = LSTM(%x, %w_i, %w_r, %b_all, %l, %h, %c) {hidden_size = 3, direction = \"bidirectional\"}\n"
         "output %y: float32[6, 2, 3, 3]\noutput %yh: float32[2, 3, 3]\noutput %yc: float32[2, 3, 3]\n",
         {{6, 3, 5}, {3}, {2, 3, 3}, {2, 3, 3}},
         "lstm initial lengths"},
        {"GruOfLengths",
         "opset 18\ninput %x: float32[6, 2, 5]\ninput %w_i: float32[1, 9, 5]\ninput %w_r: float32[1, 9, 3]\n"
         "const %l: int32[2] = {4, 6}\n"
         "%y, %yh = GRU(%x, %w_i, %w_r, , %l) {hidden_size = 3, direction = \"reverse\"}\n"
         "output %y: float32[6, 1, 2, 3]\noutput %yh: float32[1, 2, 3]\n",
         {{6, 2, 5}},
         "gru reverse lengths"},
        {"RnnOfRelu",
         "opset 18\ninput %x: float32[6, 2, 5]\ninput %w_i: float32[2, 3, 5]\ninput %w_r: float32[2, 3, 3]\n"
         "const %l: int32[2] = {6, 6}\n"
         "%y, %yh = RNN(%x, %w_i, %w_r, , %l) {hidden_size = 3, direction = \"bidirectional\", "
         "activations = [\"Relu\", \"Relu\"]}\n"
         "output %y: float32[6, 2, 2, 3]\noutput %yh: float32[2, 2, 3]\n",
         {{6, 2, 5}},
         "rnn_relu\n"},
        {"MaxPoolIndices",
         "opset 18\ninput %x: float32[2, 3, 6, 7]\n"
         "%y, %p = MaxPool(%x) {kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]}\n"
         "output %y: float32[2, 3, 3, 4]\noutput %p: int64[2, 3, 3, 4]\n",
         {{2, 3, 6, 7}},
         "arg_extreme"},
        {"MaxPoolIndicesOfALine",
         "opset 18\ninput %x: float32[2, 3, 9]\n%y, %p = MaxPool(%x) {kernel_shape = [2], dilations = [2]}\n"
         "output %y: float32[2, 3, 7]\noutput %p: int64[2, 3, 7]\n",
         {{2, 3, 9}},
         "arg_extreme"},
        {"Lrn",
         "opset 18\ninput %x: float32[2, 20, 3, 4]\n"
         "%y = LRN(%x) {size = 5, alpha = 0.5, beta = 0.75, bias = 2.0}\noutput %y: float32[2, 20, 3, 4]\n",
         {{2, 20, 3, 4}},
         "conv.fp32"},
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

/// What a model with one value whose rows are counted is refused for.
std::string refusal_of(const std::string& behind) {
    const Model model = network("opset 18\ninput %i: int64[3, 5]\n%n = NonZero(%i)\n" + behind);
    auto prepared = cuda::prepare(model, Precision::float32);
    if (!prepared) return prepared.error().describe();
    const auto plan = cuda::lower(*prepared, {{3, 5}});
    return plan ? "" : plan.error().describe();
}

TEST(CountedRows, AreNotTakenForTheRoomThatTheyHave) {
    EXPECT_THAT(refusal_of("%y = Shape(%n)\n%z = Cast(%y) {to = 1}\noutput %z: float32[2]\n"),
                testing::HasSubstr("(NonZero): Shape -> y needs to know how many there are"));
    EXPECT_THAT(refusal_of("%y = ReduceSum(%n)\noutput %y: int64[1, 1]\n"),
                testing::HasSubstr("needs to know how many there are"));
    EXPECT_THAT(refusal_of("const %o: int64[1] = {0}\nconst %f: int64[1] = {-1}\n%y = Reshape(%n, %f)\n"
                           "output %y: int64[rows]\n"),
                testing::HasSubstr("Reshape would take its empty ones for a part of it"));
    EXPECT_EQ(refusal_of("%y = Cast(%n) {to = 1}\noutput %y: float32[2, rows]\n"), "");
}

TEST(CountedRows, AreCutAlongAnyAxis) {
    std::vector<std::int32_t> numbers(24);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::int32_t>(i);
    const auto bytes = std::as_writable_bytes(std::span(numbers));
    Shape shape{2, 4, 3};
    cuda::cut_rows(bytes, 4, shape, 1, 2);
    EXPECT_EQ(shape, (Shape{2, 2, 3}));
    EXPECT_THAT(std::span(numbers).first(12), testing::ElementsAre(0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17));
    cuda::cut_rows(bytes, 4, shape, 0, 9);
    EXPECT_EQ(shape, (Shape{2, 2, 3}));
    cuda::cut_rows(bytes, 4, shape, 2, 0);
    EXPECT_EQ(shape, (Shape{2, 2, 0}));
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
INSTANTIATE_TEST_SUITE_P(All, IndexedOperators, testing::ValuesIn(indexed_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// Layout 1 is layout 0 between transpositions.
TEST(Recurrent, MayHaveItsBatchFirst) {
    const std::string operands = "opset 18\ninput %x: float32[2, 6, 5]\ninput %h: float32[2, 2, 3]\n"
                                 "input %w_i: float32[2, 9, 5]\ninput %w_r: float32[2, 9, 3]\n";
    const std::string outputs = "output %y: float32[2, 6, 2, 3]\noutput %yh: float32[2, 2, 3]\n";
    const Model first = network(operands +
                                "%y, %yh = GRU(%x, %w_i, %w_r, , , %h) {hidden_size = 3, layout = 1, "
                                "direction = \"bidirectional\"}\n" +
                                outputs);
    const Model second = network(operands +
                                 "%t = Transpose(%x) {perm = [1, 0, 2]}\n%s = Transpose(%h) {perm = [1, 0, 2]}\n"
                                 "%z, %zh = GRU(%t, %w_i, %w_r, , , %s) {hidden_size = 3, "
                                 "direction = \"bidirectional\"}\n"
                                 "%y = Transpose(%z) {perm = [2, 0, 1, 3]}\n%yh = Transpose(%zh) {perm = [1, 0, 2]}\n" +
                                 outputs);
    const std::vector<Shape> shapes{{2, 6, 5}, {2, 2, 3}};
    auto inputs = random_inputs(first, shapes);
    const auto expected = run_on_cpu(second, inputs);
    const auto found = interpreted(plan_of(first, Precision::float32, shapes), inputs, false);
    for (std::size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(found[i].shape, expected[i].shape);
        EXPECT_LT(relative_difference(expected[i], found[i]), 1e-5);
    }
}

// Places between pixels need more than 16 bits: neither the product nor the operand that GridSample reads has fewer.
TEST(GridSample, ReadsItsPlacesInFloat32) {
    const Model model = network("opset 16\ninput %x: float32[1, 8, 40, 50]\ninput %f: float32[1, 40, 50, 2]\n"
                                "input %b_g: float32[1, 40, 50, 2]\n%g = Add(%f, %b_g)\n"
                                "%y = GridSample(%x, %g)\noutput %y: float32[1, 8, 40, 50]\n");
    const cuda::Plan plan = plan_of(model, Precision::float16, {{1, 8, 40, 50}, {1, 40, 50, 2}});
    for (const cuda::FusedOp& op : plan.ops) {
        if (const auto* indexed = std::get_if<cuda::Indexed>(&op.detail);
            indexed != nullptr && indexed->kind == cuda::IndexedKind::grid_sample) {
            EXPECT_EQ(plan.values[op.inputs[0]].type, cuda::ElementType::f16) << cuda::print(plan);
            EXPECT_EQ(plan.values[op.inputs[1]].type, cuda::ElementType::f32) << cuda::print(plan);
        }
    }
}

// The CPU engine has no form of it.
TEST(DeformConv, IsAConvolutionOfWhatIsSampled) {
    const Model model = network(
        "opset 19\ninput %x: float32[2, 4, 7, 6]\ninput %o: float32[2, 16, 3, 5]\ninput %m: float32[2, 8, 3, 5]\n"
        "input %w_f: float32[6, 2, 2, 2]\ninput %b_f: float32[6]\n"
        "%y = DeformConv(%x, %w_f, %o, %b_f, %m) {group = 2, offset_group = 2, strides = [2, 1], "
        "dilations = [2, 1], pads = [1, 0, 0, 0], kernel_shape = [2, 2]}\noutput %y: float32[2, 6, 3, 5]\n");
    const std::vector<Shape> shapes{{2, 4, 7, 6}, {2, 16, 3, 5}, {2, 8, 3, 5}};
    auto inputs = random_inputs(model, shapes);
    for (float& offset : inputs[1].as<float>())
        offset *= 3;
    const auto found = interpreted(plan_of(model, Precision::float32, shapes), inputs, false);
    const auto x = inputs[0].as<float>(), offsets = inputs[1].as<float>(), mask = inputs[2].as<float>();
    const auto weights = model.graph.initializers.at("w_f").to_floats(),
               bias = model.graph.initializers.at("b_f").to_floats();
    const auto pixel = [&](std::size_t plane, double row, double column) {
        const bool inside = row >= 0 && row < 7 && column >= 0 && column < 6;
        const auto at = inside ? plane * 42 + static_cast<std::size_t>(row) * 6 + static_cast<std::size_t>(column) : 0;
        return inside ? static_cast<double>(x[at]) : 0.0;
    };
    HostTensor expected("y", DataType::float32, {2, 6, 3, 5});
    for (std::size_t i = 0; i < expected.as<float>().size(); ++i) {
        const std::size_t column = i % 5, row = i / 5 % 3, k = i / 15 % 6, n = i / 90;
        auto sum = static_cast<double>(bias[k]);
        for (std::size_t tap = 0; tap < 8; ++tap) { // two channels of the group, 2 x 2
            const std::size_t c = k / 3 * 2 + tap / 4, place = tap % 4;
            const auto of_tap = [&](std::size_t channel) { return channel * 15 + row * 5 + column; };
            const std::size_t offset = n * 16 + (c / 2 * 4 + place) * 2;
            const double y =
                static_cast<double>(row * 2 + place / 2 * 2) - 1 + static_cast<double>(offsets[of_tap(offset)]);
            const double z = static_cast<double>(column + place % 2) + static_cast<double>(offsets[of_tap(offset + 1)]);
            const double top = std::floor(y), left = std::floor(z), down = y - top, right = z - left;
            const std::size_t plane = n * 4 + c;
            const double value =
                (1 - down) * ((1 - right) * pixel(plane, top, left) + right * pixel(plane, top, left + 1)) +
                down * ((1 - right) * pixel(plane, top + 1, left) + right * pixel(plane, top + 1, left + 1));
            sum += value * static_cast<double>(weights[k * 8 + tap]) *
                   static_cast<double>(mask[of_tap(n * 8 + c / 2 * 4 + place)]);
        }
        expected.as<float>()[i] = static_cast<float>(sum);
    }
    EXPECT_LT(relative_difference(expected, found[0]), 1e-5);
}

TEST(Det, IsASumOfProducts) {
    for (const auto& [n, opset] : std::vector<std::pair<std::size_t, int>>{{1, 17}, {2, 17}, {3, 18}, {4, 20}}) {
        const std::string size = std::to_string(n);
        const Model model = network("opset " + std::to_string(opset) + "\ninput %x: float32[2, 3, " + size + ", " +
                                    size + "]\n%y = Det(%x)\noutput %y: float32[2, 3]\n");
        const std::vector<Shape> shapes{{2, 3, static_cast<std::int64_t>(n), static_cast<std::int64_t>(n)}};
        auto inputs = random_inputs(model, shapes);
        const auto found = interpreted(plan_of(model, Precision::float32, shapes), inputs, false);
        for (std::size_t which = 0; which < 6; ++which) {
            const auto x = inputs[0].as<float>().subspan(which * n * n, n * n);
            std::vector<double> a(x.begin(), x.end());
            double expected = 1;
            for (std::size_t i = 0; i < n; ++i) { // elimination; random pivots are not 0
                expected *= a[i * n + i];
                for (std::size_t k = i + 1; k < n; ++k) {
                    const double factor = a[k * n + i] / a[i * n + i];
                    for (std::size_t j = i; j < n; ++j)
                        a[k * n + j] -= factor * a[i * n + j];
                }
            }
            EXPECT_NEAR(found[0].as<float>()[which], expected, 1e-5);
        }
    }
}

// SegNet: what was largest returns to its place, all else is 0.
TEST(MaxUnpool, IsAScatter) {
    const Model model = network("opset 18\ninput %x: float32[2, 3, 6, 8]\n"
                                "%p, %i = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                                "%y = MaxUnpool(%p, %i) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                                "output %y: float32[2, 3, 6, 8]\n");
    const std::vector<Shape> shapes{{2, 3, 6, 8}};
    auto inputs = random_inputs(model, shapes);
    const auto found = interpreted(plan_of(model, Precision::float32, shapes), inputs, false);
    const auto x = inputs[0].as<float>();
    const auto y = found[0].as<float>();
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t plane = 0; plane < 6; ++plane) {
        for (std::size_t row = 0; row < 6; ++row) {
            for (std::size_t column = 0; column < 8; ++column) {
                const auto at = [&](std::size_t r, std::size_t c) { return plane * 48 + r * 8 + c; };
                float largest = -1e9F;
                for (std::size_t k = 0; k < 4; ++k)
                    largest = std::max(largest, x[at(row / 2 * 2 + k / 2, column / 2 * 2 + k % 2)]);
                const float own = x[at(row, column)];
                EXPECT_EQ(y[at(row, column)], own == largest ? own : 0.0F);
            }
        }
    }
}

} // namespace
} // namespace lathe::test
