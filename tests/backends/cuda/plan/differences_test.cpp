// Small networks that one of the engines computed otherwise than ONNX defines them, or refused, found by
// tests/differential: most by OpenVINO, which gets another form of them now. What the CPU engine gives is held against
// the CUDA engine's plan in the interpreter, which shares nothing with it.
#include <algorithm>
#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "support/machine.hpp"

namespace lathe::test {
namespace {

struct Input {
    std::string name;
    Shape shape;
};

struct Difference {
    std::string name;
    std::string text;           ///< constants that are told among its inputs are `weights`
    std::vector<Input> weights; ///< filled with noise
    std::vector<Input> inputs;  ///< with the sizes that they are run with
    double within = 1e-5;       ///< of the outputs' norm
};
std::ostream& operator<<(std::ostream& stream, const Difference& difference) { return stream << difference.name; }

class Differences : public testing::TestWithParam<Difference> {};

TEST_P(Differences, BothEnginesAgree) {
    const Difference& given = GetParam();
    Model model = model_from_text(given.text);
    model.graph.inputs.resize(given.inputs.size());
    for (std::uint32_t seed = 0; seed < given.weights.size(); ++seed)
        add_weights(model, given.weights[seed].name, given.weights[seed].shape, seed + 1);
    std::vector<HostTensor> inputs;
    std::vector<Shape> shapes;
    for (const Input& input : given.inputs) {
        HostTensor tensor(input.name, DataType::float32, input.shape);
        const auto values = noise(static_cast<std::size_t>(element_count(input.shape)),
                                  static_cast<std::uint32_t>(100 + inputs.size()));
        std::copy(values.begin(), values.end(), tensor.as<float>().begin());
        inputs.push_back(std::move(tensor));
        shapes.push_back(input.shape);
    }
    const auto wanted = interpreted(plan_of(model, Precision::float32, shapes), inputs, true);
    const auto found = run_on_cpu(model, inputs);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].shape, wanted[i].shape);
        EXPECT_LT(relative_difference(wanted[i], found[i]), given.within);
    }
}

const std::string scaled_attention = "%q = Mul(%x, %half)\n"
                                     "%scores = MatMul(%q, %k)\n"
                                     "%shares = Softmax(%scores) {axis = -1}\n"
                                     "%heads = MatMul(%shares, %v)\n";

std::vector<Difference> differences() {
    return {
        {"response_of_a_broken_bias",
         "opset 13\ninput %x: float32[2, 6, 3, 3]\n"
         "%y = LRN(%x) {size = 3, alpha = 0.1, beta = 0.75, bias = 1.5}\noutput %y: float32[2, 6, 3, 3]\n",
         {},
         {{"x", {2, 6, 3, 3}}}},
        // As many heads as tokens: the kernel's output has its first input's shape, in another order.
        {"attention_whose_result_is_turned",
         "opset 13\ninput %x: float32[1, 8, 8, 16]\ninput %k: float32[1, 8, 16, 8]\ninput %v: float32[1, 8, 8, 16]\n"
         "const %half: float32[] = {0.5}\n" +
             scaled_attention + "%y = Transpose(%heads) {perm = [0, 2, 1, 3]}\noutput %y: float32[1, 8, 8, 16]\n",
         {},
         {{"x", {1, 8, 8, 16}}, {"k", {1, 8, 16, 8}}, {"v", {1, 8, 8, 16}}}},
        {"attention_whose_rows_are_turned",
         "opset 13\ninput %r: float32[2, 8, 128]\ninput %k: float32[2, 8, 16, 8]\ninput %v: float32[2, 8, 8, 16]\n"
         "const %half: float32[] = {0.5}\nconst %sizes: int64[4] = {2, 8, 8, 16}\n"
         "%split = Reshape(%r, %sizes)\n%x = Transpose(%split) {perm = [0, 2, 1, 3]}\n"
         "%scores = MatMul(%x, %k)\n%scaled = Mul(%scores, %half)\n%shares = Softmax(%scaled) {axis = -1}\n"
         "%y = MatMul(%shares, %v)\noutput %y: float32[2, 8, 8, 16]\n",
         {},
         {{"r", {2, 8, 128}}, {"k", {2, 8, 16, 8}}, {"v", {2, 8, 8, 16}}}},
        {"factors_by_channel_behind_rows",
         "opset 17\ninput %x: float32[batch, 3, 5, 6]\nconst %scale: float32[3] = {0.5, 1.5, 2.0}\n"
         "const %mean: float32[3] = {0.1, -0.2, 0.3}\n%m = MatMul(%x, %w)\n%a = Add(%m, %b)\n%r = Relu(%a)\n"
         "%y = BatchNormalization(%r, %scale, %mean, %mean, %scale)\noutput %y: float32[batch, 3, 5, 10]\n",
         {{"w", {6, 10}}, {"b", {10}}},
         {{"x", {2, 3, 5, 6}}}},
        {"factors_by_channel_behind_products_of_both_sides",
         "opset 17\ninput %x: float32[batch, 3, 5, 6]\n%m = MatMul(%x, %w)\n%r = Relu(%m)\n%l = MatMul(%left, %r)\n"
         "%y = Mul(%l, %factor)\noutput %y: float32[batch, 3, 4, 10]\n",
         {{"w", {6, 10}}, {"left", {4, 5}}, {"factor", {3, 1, 1}}},
         {{"x", {2, 3, 5, 6}}}},
        {"largest_of_windows_behind_the_input",
         "opset 13\ninput %x: float32[batch, 6, height, 9]\n"
         "%y = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 1], pads = [1, 0, 1, 0], ceil_mode = 1}\n"
         "output %y: float32[batch, 6, ?, ?]\n",
         {},
         {{"x", {2, 6, 5, 9}}}},
        {"means_of_windows_behind_the_input",
         "opset 13\ninput %x: float32[batch, 3, 9, 3]\n"
         "%y = AveragePool(%x) {kernel_shape = [2, 3], strides = [2, 3], pads = [1, 0, 0, 1], ceil_mode = 1, "
         "count_include_pad = 1}\noutput %y: float32[batch, 3, ?, ?]\n",
         {},
         {{"x", {1, 3, 9, 3}}}},
        // A window of one pixel with padding, strided, behind what is computed number by number.
        {"strided_point_of_padded",
         "opset 13\ninput %x: float32[2, 4, 2, 5]\ninput %w: float32[8, 4, 1, 1]\ninput %b: float32[8]\n"
         "%m = Mul(%x, %x)\n%y = Conv(%m, %w, %b) {pads = [2, 0, 0, 1], strides = [2, 2]}\n"
         "output %y: float32[2, 8, ?, ?]\n",
         {{"w", {8, 4, 1, 1}}, {"b", {8}}},
         {{"x", {2, 4, 2, 5}}}},
        // It ended the process with a segmentation fault where there is AVX-512.
        {"windows_of_padding_alone",
         "opset 13\ninput %x: float32[1, 8, 3]\ninput %w: float32[10, 8, 1]\ninput %b: float32[10]\n"
         "%y = Conv(%x, %w, %b) {pads = [0, 2]}\noutput %y: float32[1, 10, 5]\n",
         {{"w", {10, 8, 1}}, {"b", {10}}},
         {{"x", {1, 8, 3}}}},
        {"windows_of_padding_alone_of_open_sizes",
         "opset 13\ninput %x: float32[1, 8, length]\ninput %w: float32[10, 8, 2]\n"
         "%y = Conv(%x, %w) {pads = [3, 4]}\noutput %y: float32[1, 10, ?]\n",
         {{"w", {10, 8, 2}}},
         {{"x", {1, 8, 3}}}},
        {"strided_windows_in_front_and_behind",
         "opset 13\ninput %x: float32[2, 4, 5]\ninput %w: float32[6, 4, 2]\n"
         "%y = Conv(%x, %w) {pads = [4, 5], strides = [3]}\noutput %y: float32[2, 6, ?]\n",
         {{"w", {6, 4, 2}}},
         {{"x", {2, 4, 5}}}},
        {"one_window_of_one_channel",
         "opset 13\ninput %x: float32[1, 1, 3, 8, 4]\ninput %w: float32[2, 1, 3, 3, 3]\n"
         "%y = Conv(%x, %w) {strides = [2, 1, 2]}\noutput %y: float32[1, 2, 1, 6, 1]\n",
         {{"w", {2, 1, 3, 3, 3}}},
         {{"x", {1, 1, 3, 8, 4}}}},
        {"one_window_of_one_channel_by_its_size",
         "opset 13\ninput %x: float32[2, 1, 8, 3]\ninput %w: float32[16, 1, 3, 3]\n"
         "%y = Conv(%x, %w) {strides = [1, 3], auto_pad = \"SAME_UPPER\"}\noutput %y: float32[2, 16, 8, 1]\n",
         {{"w", {16, 1, 3, 3}}},
         {{"x", {2, 1, 8, 3}}}},
        // It was refused: "Default output not supported".
        {"strided_point_of_parts",
         "opset 13\ninput %x: float32[3, 8, 6]\ninput %f: float32[3, 8, 3]\ninput %w: float32[7, 8, 1]\n"
         "const %sizes: int64[2] = {3, 3}\n%a, %b = Split(%x, %sizes) {axis = 2}\n%m = Mul(%a, %f)\n"
         "%y = Conv(%m, %w) {auto_pad = \"VALID\", strides = [2]}\noutput %y: float32[3, 7, 2]\n",
         {{"w", {7, 8, 1}}},
         {{"x", {3, 8, 6}}, {"f", {3, 8, 3}}}},
        // As many factors as the window has places.
        {"factors_by_place",
         "opset 13\ninput %x: float32[3, 9, 5]\ninput %w: float32[9, 1, 5]\ninput %f: float32[5]\n"
         "%m = Mul(%x, %f)\n%y = Conv(%m, %w) {group = 9, pads = [1, 2], strides = [2]}\noutput %y: float32[3, 9, 2]\n",
         {{"w", {9, 1, 5}}, {"f", {5}}},
         {{"x", {3, 9, 5}}}},
        {"slope_behind_a_product",
         "opset 13\ninput %x: float32[3, 4, 2, 7, 3]\ninput %w: float32[3, 3]\ninput %s: float32[4, 1, 1, 1]\n"
         "%m = MatMul(%x, %w)\n%y = PRelu(%m, %s)\noutput %y: float32[3, 4, 2, 7, 3]\n",
         {{"w", {3, 3}}, {"s", {4, 1, 1, 1}}},
         {{"x", {3, 4, 2, 7, 3}}}},
        // Axes of one element that a Reshape or a Transpose moves.
        {"mean_that_is_reshaped",
         "opset 13\ninput %x: float32[1, 2, 3]\nconst %sizes: int64[2] = {3, 1}\n"
         "%m = ReduceMean(%x) {axes = [1], keepdims = 0}\n%y = Reshape(%m, %sizes)\noutput %y: float32[3, 1]\n",
         {},
         {{"x", {1, 2, 3}}}},
        {"mean_that_is_turned",
         "opset 18\ninput %x: float32[5, 6, 1, 4, 3]\nconst %axes: int64[2] = {0, -1}\n"
         "%m = ReduceMean(%x, %axes) {keepdims = 0}\n%y = Transpose(%m) {perm = [1, 0, 2]}\n"
         "output %y: float32[1, 6, 4]\n",
         {},
         {{"x", {5, 6, 1, 4, 3}}}},
        // A number a channel behind a reduction of three axes.
        {"mean_of_a_line_and_a_bias",
         "opset 13\ninput %x: float32[3, 9, 4]\ninput %b: float32[9, 1]\n"
         "%m = GlobalAveragePool(%x)\n%y = Add(%m, %b)\noutput %y: float32[3, 9, 1]\n",
         {{"b", {9, 1}}},
         {{"x", {3, 9, 4}}}},
        {"mean_of_a_line_in_a_row_and_a_bias",
         "opset 13\ninput %x: float32[2, 16, 8]\ninput %b: float32[16]\n"
         "%m = ReduceMean(%x) {axes = [-1], keepdims = 0}\n%y = Add(%m, %b)\noutput %y: float32[2, 16]\n",
         {{"b", {16}}},
         {{"x", {2, 16, 8}}}},
        {"largest_of_a_line_and_factors",
         "opset 18\ninput %x: float32[2, 16, 8]\ninput %b: float32[16, 1]\nconst %axes: int64[1] = {-1}\n"
         "%m = ReduceMax(%x, %axes)\n%y = Mul(%m, %b)\noutput %y: float32[2, 16, 1]\n",
         {{"b", {16, 1}}},
         {{"x", {2, 16, 8}}}},
        {"sum_of_samples_and_a_bias",
         "opset 13\ninput %x: float32[3, 9, 4]\ninput %b: float32[9, 1]\nconst %axes: int64[1] = {0}\n"
         "%m = ReduceSum(%x, %axes)\n%y = Add(%m, %b)\noutput %y: float32[1, 9, 4]\n",
         {{"b", {9, 1}}},
         {{"x", {3, 9, 4}}}},
        {"axis_from_the_end_behind_a_new_one",
         "opset 13\ninput %x: float32[3, 3]\nconst %last: int64[1] = {2}\nconst %axes: int64[1] = {-3}\n"
         "%u = Unsqueeze(%x, %last)\n%y = ReduceSum(%u, %axes)\noutput %y: float32[1, 3, 1]\n",
         {},
         {{"x", {3, 3}}}},
        {"elements_of_a_slice",
         "opset 13\ninput %x: float32[3, 7, 6]\nconst %from: int64[1] = {0}\nconst %to: int64[1] = {1}\n"
         "const %axis: int64[1] = {1}\nconst %at: int64[3, 1, 2] = {5, 0, 3, 3, 1, 2}\n"
         "%s = Slice(%x, %from, %to, %axis)\n%y = GatherElements(%s, %at) {axis = 2}\noutput %y: float32[3, 1, 2]\n",
         {},
         {{"x", {3, 7, 6}}}},
        // A zero point a row it refused.
        {"joined_rows_in_int8",
         "opset 13\ninput %x: float32[2, 5, 4, 7]\ninput %z: float32[2, 7, 4, 7]\n"
         "const %s: float32[] = {0.02}\nconst %zero: int8[] = {0}\nconst %ws: float32[] = {0.01}\n"
         "const %w: int8[7, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}\n"
         "%j = Concat(%x, %z) {axis = 1}\n%q = QuantizeLinear(%j, %s, %zero)\n%d = DequantizeLinear(%q, %s, %zero)\n"
         "%f = DequantizeLinear(%w, %ws, %zero)\n%y = MatMul(%d, %f)\noutput %y: float32[2, 12, 4, 3]\n",
         {},
         {{"x", {2, 5, 4, 7}}, {"z", {2, 7, 4, 7}}}},
        {"joined_parts_of_int8",
         "opset 13\ninput %x: float32[1, 8, 12]\nconst %s: float32[] = {0.02}\nconst %zero: int8[] = {0}\n"
         "const %ws: float32[] = {0.01}\nconst %w: int8[12, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
         "16, 17, 18, 19, 20, 21, 22, 23, 24}\nconst %sizes: int64[2] = {3, 5}\n"
         "%q = QuantizeLinear(%x, %s, %zero)\n%d = DequantizeLinear(%q, %s, %zero)\n"
         "%a, %b = Split(%d, %sizes) {axis = 1}\n%j = Concat(%b, %a) {axis = 1}\n"
         "%f = DequantizeLinear(%w, %ws, %zero)\n%y = MatMul(%j, %f)\noutput %y: float32[1, 8, 2]\n",
         {},
         {{"x", {1, 8, 12}}}},
        // Bytes beside which the padding is no zero: they have a zero point on the CPU.
        {"padded_means_of_int8",
         "opset 13\ninput %x: float32[2, 8, 9]\nconst %s: float32[] = {0.02}\nconst %zero: int8[] = {0}\n"
         "%q = QuantizeLinear(%x, %s, %zero)\n%d = DequantizeLinear(%q, %s, %zero)\n"
         "%y = AveragePool(%d) {kernel_shape = [2], strides = [2], pads = [1, 1], count_include_pad = 1}\n"
         "output %y: float32[2, 8, 5]\n",
         {},
         {{"x", {2, 8, 9}}},
         0.03}, // OpenVINO gives means of bytes as bytes
        // The CUDA engine's own: vectors of one number for all channels, of other channels' count, were one vector.
        {"products_of_other_widths_with_one_factor",
         "opset 13\ninput %x: float32[5, 4]\ninput %a: float32[4, 3]\ninput %b: float32[3, 8]\n"
         "%u = Gemm(%x, %a) {alpha = 0.5}\n%v = Tanh(%u)\n%y = Gemm(%v, %b) {alpha = 0.5}\n"
         "output %y: float32[5, 8]\n",
         {{"a", {4, 3}}, {"b", {3, 8}}},
         {{"x", {5, 4}}}},
        // It rewrote this for ever.
        {"line_that_is_an_image_of_one_row",
         "opset 13\ninput %x: float32[2, 3, 4]\ninput %f: float32[2, 3, 4]\ninput %w: float32[3, 1, 3]\n"
         "const %sizes: int64[4] = {2, 3, 4, 1}\n%c = Conv(%x, %w) {group = 3, pads = [1, 1]}\n%m = Mul(%c, %f)\n"
         "%s = Add(%m, %x)\n%r = Reshape(%s, %sizes)\n%y = Transpose(%r) {perm = [0, 2, 1, 3]}\n"
         "output %y: float32[2, 4, 3, 1]\n",
         {{"w", {3, 1, 3}}},
         {{"x", {2, 3, 4}}, {"f", {2, 3, 4}}}},
        {"line_whose_places_are_channels",
         "opset 13\ninput %x: float32[1, 4, 6]\ninput %w: float32[4, 1, 1]\ninput %v: float32[12, 1, 4]\n"
         "%c = Conv(%x, %w) {group = 4}\n%s = Softplus(%c)\n%t = Transpose(%s) {perm = [0, 2, 1]}\n"
         "%y = Conv(%t, %v) {group = 6, pads = [1, 0], strides = [2]}\noutput %y: float32[1, 12, 1]\n",
         {{"w", {4, 1, 1}}, {"v", {12, 1, 4}}},
         {{"x", {1, 4, 6}}}},
        // It ended the process with a segmentation fault.
        {"attention_of_what_it_is_added_to",
         "opset 13\ninput %v: float32[8, 4, 12]\ninput %k: float32[8, 12, 4]\n"
         "%q = Relu(%v)\n%scores = MatMul(%q, %k)\n%shares = Softmax(%scores) {axis = -1}\n"
         "%heads = MatMul(%shares, %v)\n%y = Add(%q, %heads)\noutput %y: float32[8, 4, 12]\n"
         "output %heads: float32[8, 4, 12]\n",
         {},
         {{"v", {8, 4, 12}}, {"k", {8, 12, 4}}}},
        {"attention_whose_keys_meet_it_again",
         "opset 13\ninput %v: float32[8, 4, 12]\ninput %k: float32[8, 12, 4]\nconst %flat: int64[2] = {8, 48}\n"
         "const %rows: int64[3] = {8, 4, 12}\n"
         "%q = Sigmoid(%v)\n%half = Tanh(%q)\n%scores = MatMul(%half, %k)\n"
         "%shares = Softmax(%scores) {axis = -1}\n%heads = MatMul(%shares, %v)\n%long = Reshape(%heads, %flat)\n"
         "%back = Reshape(%long, %rows)\n%again = Abs(%q)\n%y = Mul(%back, %again)\noutput %y: float32[8, 4, 12]\n",
         {},
         {{"v", {8, 4, 12}}, {"k", {8, 12, 4}}}},
        {"attention_that_is_read_twice",
         "opset 13\ninput %v: float32[2, 5, 8]\ninput %k: float32[2, 8, 5]\ninput %z: float32[2, 5, 8]\n"
         "%scores = MatMul(%v, %k)\n%shares = Softmax(%scores) {axis = -1}\n%heads = MatMul(%shares, %v)\n"
         "%less = Sub(%heads, %z)\n%y = Mul(%less, %heads)\noutput %y: float32[2, 5, 8]\n",
         {},
         {{"v", {2, 5, 8}}, {"k", {2, 8, 5}}, {"z", {2, 5, 8}}}},
        {"attention_that_a_convolution_reads_too",
         "opset 13\ninput %v: float32[2, 5, 8]\ninput %k: float32[2, 8, 5]\ninput %z: float32[2, 5, 8]\n"
         "input %u: float32[2, 5, 8]\ninput %w: float32[4, 5, 1]\n"
         "%scores = MatMul(%v, %k)\n%shares = Softmax(%scores) {axis = -1}\n%heads = MatMul(%shares, %v)\n"
         "%c = Conv(%heads, %w)\n%p = Mul(%z, %u)\n%y = Mul(%p, %heads)\n"
         "output %y: float32[2, 5, 8]\noutput %c: float32[2, 4, 8]\n",
         {{"w", {4, 5, 1}}},
         {{"v", {2, 5, 8}}, {"k", {2, 8, 5}}, {"z", {2, 5, 8}}, {"u", {2, 5, 8}}}},
        {"attention_less_something_that_is_read_twice",
         "opset 13\ninput %v: float32[2, 5, 8]\ninput %k: float32[2, 8, 5]\ninput %z: float32[2, 5, 8]\n"
         "%scores = MatMul(%v, %k)\n%shares = Softmax(%scores) {axis = -1}\n%heads = MatMul(%shares, %v)\n"
         "%less = Sub(%heads, %z)\n%a = Relu(%less)\n%b = Softmax(%less) {axis = -1}\n%y = Add(%a, %b)\n"
         "output %y: float32[2, 5, 8]\n",
         {},
         {{"v", {2, 5, 8}}, {"k", {2, 8, 5}}, {"z", {2, 5, 8}}}},
        {"steps_of_one_number_that_are_put_out_too",
         "opset 13\ninput %x: float32[3, 2, 1]\ninput %w: float32[1, 1, 1]\ninput %r: float32[1, 1, 1]\n"
         "const %axes: int64[1] = {2}\nconst %rows: int64[3] = {3, 2, 1}\n"
         "%s = Selu(%x)\n%h = RNN(%s, %w, %r) {direction = \"reverse\", hidden_size = 1}\n"
         "%t = Transpose(%h) {perm = [0, 2, 1, 3]}\n%y = Reshape(%t, %rows)\n%z = Unsqueeze(%s, %axes)\n"
         "output %y: float32[3, 2, 1]\noutput %z: float32[3, 2, 1, 1]\n",
         {{"w", {1, 1, 1}}, {"r", {1, 1, 1}}},
         {{"x", {3, 2, 1}}}},
        // These it refused.
        {"mish_between_layers_of_rows",
         "opset 13\ninput %x: float32[8, 6]\ninput %w: float32[6, 10]\ninput %v: float32[10, 6]\n"
         "const %large: float32[] = {30.0}\n%a = MatMul(%x, %w)\n%a2 = Mul(%a, %large)\n%s = Softplus(%a2)\n"
         "%t = Tanh(%s)\n%m = Mul(%a2, %t)\n%y = MatMul(%m, %v)\noutput %y: float32[8, 6]\n",
         {{"w", {6, 10}}, {"v", {10, 6}}},
         {{"x", {8, 6}}}},
        {"slopes_by_channel_behind_a_product",
         "opset 21\ninput %x: float32[3, 2, 4, 7]\ninput %w: float32[7, 7]\nconst %slope: float32[2, 1, 1] = {0.1, "
         "0.3}\n"
         "%a = MatMul(%x, %w)\n%s = Sigmoid(%a)\n%m = Mul(%a, %s)\n%y = PRelu(%m, %slope)\n"
         "output %y: float32[3, 2, 4, 7]\n",
         {{"w", {7, 7}}},
         {{"x", {3, 2, 4, 7}}}},
        {"instance_norm_of_lines",
         "opset 13\ninput %x: float32[3, 7, 24]\ninput %g: float32[7]\ninput %b: float32[7]\n"
         "%y = InstanceNormalization(%x, %g, %b) {epsilon = 0.01}\noutput %y: float32[3, 7, 24]\n",
         {{"g", {7}}, {"b", {7}}},
         {{"x", {3, 7, 24}}}},
        {"group_norm_of_lines",
         "opset 21\ninput %x: float32[3, 6, 5]\ninput %g: float32[6]\ninput %b: float32[6]\n"
         "%y = GroupNormalization(%x, %g, %b) {num_groups = 2, epsilon = 0.01}\noutput %y: float32[3, 6, 5]\n",
         {{"g", {6}}, {"b", {6}}},
         {{"x", {3, 6, 5}}}},
        {"softsign",
         "opset 13\ninput %x: float32[4, 9]\n%y = Softsign(%x)\noutput %y: float32[4, 9]\n",
         {},
         {{"x", {4, 9}}}},
        {"celu",
         "opset 13\ninput %x: float32[4, 9]\n%y = Celu(%x) {alpha = 0.3}\noutput %y: float32[4, 9]\n",
         {},
         {{"x", {4, 9}}}},
        {"thresholded_relu",
         "opset 13\ninput %x: float32[4, 9]\n%y = ThresholdedRelu(%x) {alpha = 0.1}\noutput %y: float32[4, 9]\n",
         {},
         {{"x", {4, 9}}}},
        {"mean_and_variance_over_the_default_axes",
         "opset 18\ninput %x: float32[3, 9, 4, 4]\n%y = MeanVarianceNormalization(%x)\n"
         "output %y: float32[3, 9, 4, 4]\n",
         {},
         {{"x", {3, 9, 4, 4}}}},
        {"nearest_between_two_pixels",
         "opset 13\ninput %x: float32[2, 4, 6, 3]\nconst %sizes: int64[4] = {2, 4, 2, 4}\n"
         "%y = Resize(%x, , , %sizes) {mode = \"nearest\", nearest_mode = \"floor\", "
         "coordinate_transformation_mode = \"pytorch_half_pixel\"}\noutput %y: float32[2, 4, 2, 4]\n",
         {},
         {{"x", {2, 4, 6, 3}}}},
    };
}

INSTANTIATE_TEST_SUITE_P(Table, Differences, testing::ValuesIn(differences()),
                         [](const auto& info) { return info.param.name; });

/// Values of a BF16 engine on inputs of noise, and what the plan gives in float32.
std::pair<HostTensor, HostTensor> in_bf16(const std::string& text, const std::vector<Shape>& shapes) {
    const Model model = model_from_text(text);
    std::vector<HostTensor> inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        inputs.emplace_back(model.graph.inputs[i].name, DataType::float32, shapes[i]);
        const auto values = noise(inputs[i].as<float>().size(), static_cast<std::uint32_t>(i + 1));
        std::copy(values.begin(), values.end(), inputs[i].as<float>().begin());
    }
    const auto wanted = interpreted(plan_of(model, Precision::float32, shapes), inputs, true);
    CompileOptions options;
    options.precision = Precision::bfloat16;
    const auto compiled = must(must(backend_for_device("cpu"))->compile(model, options));
    const auto session = must(compiled->make_session());
    for (std::size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE(session->set_input(i, inputs[i].view()));
    EXPECT_TRUE(session->run());
    const TensorView view = must(session->output(0));
    HostTensor found(view.name, view.type, view.shape);
    std::copy(view.bytes.begin(), view.bytes.end(), found.bytes.begin());
    return {wanted[0], found};
}

// One row for all samples, heads and tokens, which the kernel for attention read wrongly: results were no numbers.
TEST(DifferencesInBf16, AMaskOfOneRowIsAdded) {
    const std::string text =
        "opset 13\ninput %x: float32[2, 4, 9, 16]\ninput %k: float32[2, 4, 16, 17]\n"
        "input %v: float32[2, 4, 17, 16]\ninput %mask: float32[1, 1, 1, 17]\n"
        "const %w: float32[16, 16] = {0.1, -0.2, 0.3, 0.05, -0.1, 0.2, 0.4, -0.3, ...}\n"
        "%q = MatMul(%x, %w)\n%s = MatMul(%q, %k)\n%m = Add(%s, %mask)\n%p = Softmax(%m) {axis = -1}\n"
        "%y = MatMul(%p, %v)\noutput %y: float32[2, 4, 9, 16]\n";
    const std::vector<Shape> shapes{{2, 4, 9, 16}, {2, 4, 16, 17}, {2, 4, 17, 16}, {1, 1, 1, 17}};
    if (!this_machine().multiplies_bfloat16()) {
        EXPECT_THROW(in_bf16(text, shapes), std::runtime_error) << "refused, as this processor has no such numbers";
        return;
    }
    const auto [wanted, found] = in_bf16(text, shapes);
    EXPECT_LT(relative_difference(wanted, found), 0.02);
}

} // namespace
} // namespace lathe::test
