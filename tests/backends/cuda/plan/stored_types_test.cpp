// Inputs and outputs of types that networks are not computed in, and whole numbers of all types: plans against the CPU
// engine, or against what ONNX says.

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// Random numbers of any type, of the interpreter's and the CPU's inputs alike.
std::vector<HostTensor> inputs_of(const Model& model, const std::vector<Shape>& shapes) {
    std::mt19937 random(11);
    std::vector<HostTensor> inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        HostTensor tensor(model.graph.inputs[i].name, model.graph.inputs[i].type, shapes[i]);
        const auto fill = [&]<class T>(T, int low, int high) {
            std::uniform_int_distribution<int> integers(low, high);
            for (T& n : tensor.as<T>())
                n = static_cast<T>(integers(random));
        };
        switch (tensor.type) {
            case DataType::uint8: fill(std::uint8_t{}, 0, 255); break;
            case DataType::int8: fill(std::int8_t{}, -128, 127); break;
            case DataType::int16: fill(std::int16_t{}, -30000, 30000); break;
            case DataType::uint16: fill(std::uint16_t{}, 0, 60000); break;
            case DataType::int32: fill(std::int32_t{}, -100, 100); break;
            case DataType::uint32: fill(std::uint32_t{}, 0, 1000); break;
            case DataType::uint64: fill(std::uint64_t{}, 0, 1000); break;
            case DataType::float64: fill(double{}, -50, 50); break;
            default: fill(float{}, -50, 50);
        }
        inputs.push_back(std::move(tensor));
    }
    return inputs;
}

/// A TensorFlow model's beginning: bytes by pixel, made floats, turned and scaled.
TEST(CudaStoredTypes, PicturesOfBytesAreReadByOneProgram) {
    const Model model =
        network("opset 18\ninput %x: uint8[2, 6, 8, 3]\ninput %b_scale: float32[3, 1, 1]\n%f = Cast(%x) {to = 1}\n"
                "%t = Transpose(%f) {perm = [0, 3, 1, 2]}\n%y = Mul(%t, %b_scale)\noutput %y: float32[2, 3, 6, 8]\n");
    auto inputs = inputs_of(model, {{2, 6, 8, 3}});
    const auto expected = run_on_cpu(model, inputs);
    for (const Precision precision : {Precision::float32, Precision::float16}) {
        const cuda::Plan plan = plan_of(model, precision, {{2, 6, 8, 3}});
        EXPECT_EQ(plan.values[plan.inputs[0]].type, cuda::ElementType::u8);
        const auto found = interpreted(plan, inputs, true);
        EXPECT_LT(relative_difference(expected[0], found[0]), precision == Precision::float32 ? 1e-6 : 2e-3)
            << cuda::print(plan);
    }
}

struct Conversion {
    const char* from;
    int to;
};
/// Every integer type in, float32 out, and back.
TEST(CudaStoredTypes, IntegersBecomeFloatsAndBack) {
    for (const Conversion& test : {Conversion{"uint8", 2},
                                   {"int8", 3},
                                   {"uint16", 4},
                                   {"int16", 5},
                                   {"int32", 6},
                                   {"uint32", 12},
                                   {"uint64", 13}}) {
        const std::string type = test.from;
        const Model model = network("opset 18\ninput %x: " + type + "[3, 5]\n%f = Cast(%x) {to = 1}\n%h = Floor(%f)\n" +
                                    "%y = Cast(%h) {to = " + std::to_string(test.to) + "}\noutput %y: " + type +
                                    "[3, 5]\noutput %f: float32[3, 5]\n");
        auto inputs = inputs_of(model, {{3, 5}});
        const cuda::Plan plan = plan_of(model, Precision::float32, {{3, 5}});
        const auto found = interpreted(plan, inputs, true);
        EXPECT_EQ(found[0].bytes, inputs[0].bytes) << type << '\n' << cuda::print(plan);
        EXPECT_EQ(found[1].type, DataType::float32);
    }
}

TEST(CudaStoredTypes, Float64IsComputedInThePrecisionAskedForAndThatIsTold) {
    const Model model = network("opset 18\ninput %x: float64[3, 5]\ninput %z: float64[5]\n%s = Add(%x, %z)\n"
                                "%y = Exp(%s)\noutput %y: float64[3, 5]\n");
    auto prepared = must(cuda::prepare(model, Precision::float32));
    const cuda::Plan plan = must(cuda::lower(prepared, {{3, 5}, {5}}));
    EXPECT_THAT(prepared.weights->float64, testing::AnyOf("s", "y"));
    EXPECT_EQ(plan.values[plan.inputs[0]].type, cuda::ElementType::f64);
    EXPECT_EQ(plan.values[plan.outputs[0]].type, cuda::ElementType::f64);
    for (const cuda::FusedOp& op : plan.ops) {
        if (std::holds_alternative<cuda::Reformat>(op.detail)) continue;
        for (const cuda::ValueId id : op.inputs)
            EXPECT_EQ(plan.values[id].type, cuda::ElementType::f32);
    }
    std::vector<HostTensor> inputs;
    inputs.emplace_back("x", DataType::float64, Shape{3, 5});
    inputs.emplace_back("z", DataType::float64, Shape{5});
    for (std::size_t i = 0; i < 15; ++i)
        inputs[0].as<double>()[i] = 0.125 * static_cast<double>(i);
    for (std::size_t i = 0; i < 5; ++i)
        inputs[1].as<double>()[i] = -0.25 * static_cast<double>(i);
    const auto found = interpreted(plan, inputs, true);
    for (std::size_t i = 0; i < 15; ++i) {
        const double expected = std::exp(inputs[0].as<double>()[i] + inputs[1].as<double>()[i % 5]);
        EXPECT_NEAR(found[0].as<double>()[i], expected, 1e-6 * expected);
    }
}

/// What integers of few bits give wraps around, in every operator.
TEST(CudaStoredTypes, WholeNumbersWrapAround) {
    const Model model =
        network("opset 18\ninput %x: uint8[64]\ninput %z: uint8[64]\n%a = Add(%x, %z)\n"
                "%s = Sub(%x, %z)\n%m = Mul(%x, %z)\n%l = BitShift(%x, %z) {direction = \"LEFT\"}\n"
                "%n = BitwiseNot(%x)\noutput %a: uint8[64]\noutput %s: uint8[64]\noutput %m: uint8[64]\n"
                "output %l: uint8[64]\noutput %n: uint8[64]\n");
    auto inputs = inputs_of(model, {{64}, {64}});
    for (std::size_t i = 0; i < 64; i += 2)
        inputs[1].as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % 11);
    const auto found = interpreted(plan_of(model, Precision::float16, {{64}, {64}}), inputs, true);
    for (std::size_t i = 0; i < 64; ++i) {
        const unsigned x = inputs[0].as<std::uint8_t>()[i], z = inputs[1].as<std::uint8_t>()[i];
        EXPECT_EQ(found[0].as<std::uint8_t>()[i], static_cast<std::uint8_t>(x + z));
        EXPECT_EQ(found[1].as<std::uint8_t>()[i], static_cast<std::uint8_t>(x - z));
        EXPECT_EQ(found[2].as<std::uint8_t>()[i], static_cast<std::uint8_t>(x * z));
        EXPECT_EQ(found[3].as<std::uint8_t>()[i], static_cast<std::uint8_t>(z > 7 ? 0 : x << z));
        EXPECT_EQ(found[4].as<std::uint8_t>()[i], static_cast<std::uint8_t>(~x));
    }
}

/// Signed and unsigned numbers of 64 bits compare and shift otherwise.
TEST(CudaStoredTypes, UnsignedNumbersOf64BitsAreNotNegative) {
    const Model model = network("opset 18\ninput %x: uint64[3]\ninput %z: uint64[3]\n%m = Max(%x, %z)\n"
                                "%r = BitShift(%x, %z) {direction = \"RIGHT\"}\n"
                                "output %m: uint64[3]\noutput %r: uint64[3]\n");
    const std::uint64_t top = std::uint64_t{1} << 63U;
    std::vector<HostTensor> inputs;
    inputs.emplace_back("x", DataType::uint64, Shape{3});
    inputs.emplace_back("z", DataType::uint64, Shape{3});
    inputs[0].as<std::uint64_t>()[0] = top;
    inputs[0].as<std::uint64_t>()[1] = 12;
    inputs[0].as<std::uint64_t>()[2] = top;
    inputs[1].as<std::uint64_t>()[0] = 1;
    inputs[1].as<std::uint64_t>()[1] = 2;
    inputs[1].as<std::uint64_t>()[2] = 64;
    const auto found = interpreted(plan_of(model, Precision::float32, {{3}, {3}}), inputs, true);
    EXPECT_THAT(std::vector<std::uint64_t>(found[0].as<std::uint64_t>().begin(), found[0].as<std::uint64_t>().end()),
                testing::ElementsAre(top, 12, top));
    EXPECT_THAT(std::vector<std::uint64_t>(found[1].as<std::uint64_t>().begin(), found[1].as<std::uint64_t>().end()),
                testing::ElementsAre(top / 2, 3, 0));
}

TEST(CudaStoredTypes, WhatCannotComputeInATypeSaysSo) {
    const Model model = network("opset 18\ninput %x: uint8[1, 3, 8, 8]\n%y = MaxPool(%x) {kernel_shape = [2, 2]}\n"
                                "output %y: uint8[1, 3, 7, 7]\n");
    auto prepared = must(cuda::prepare(model, Precision::float32));
    const auto plan = cuda::lower(prepared, {{1, 3, 8, 8}});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::unsupported);
    EXPECT_THAT(plan.error().describe(), HasSubstr("uint8"));
}

struct Computed {
    const char* name;
    const char* text;
    std::vector<Shape> shapes;
};
void PrintTo(const Computed& value, std::ostream* out) { *out << value.name; }

class WholeNumbers : public testing::TestWithParam<Computed> {};
TEST_P(WholeNumbers, AreTheCpus) {
    const Model model = network(GetParam().text);
    auto inputs = inputs_of(model, GetParam().shapes);
    const auto expected = run_on_cpu(model, inputs);
    const cuda::Plan plan = plan_of(model, Precision::float16, GetParam().shapes);
    const auto found = interpreted(plan, inputs, true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].type == DataType::float32)
            EXPECT_LT(relative_difference(expected[i], found[i]), 1e-3) << cuda::print(plan);
        else
            EXPECT_EQ(found[i].bytes, expected[i].bytes) << cuda::print(plan);
    }
}
INSTANTIATE_TEST_SUITE_P(
    All, WholeNumbers,
    testing::Values(
        Computed{"Power",
                 "opset 18\ninput %x: int32[4, 5]\n%a = Abs(%x)\n%y = Mul(%a, %x)\noutput %y: int32[4, 5]\n",
                 {{4, 5}}},
        Computed{"Chained",
                 "opset 18\ninput %x: int32[4, 5]\ninput %z: int32[5]\ninput %w: int32[4, 1]\n"
                 "%y = Max(%x, %z, %w)\noutput %y: int32[4, 5]\n",
                 {{4, 5}, {5}, {4, 1}}},
        Computed{"Chosen",
                 "opset 18\ninput %x: int32[4, 5]\ninput %z: int32[5]\n%c = Greater(%x, %z)\n"
                 "%y = Where(%c, %x, %z)\noutput %y: int32[4, 5]\n",
                 {{4, 5}, {5}}},
        Computed{"Signs", "opset 18\ninput %x: int32[4, 5]\n%y = Sign(%x)\noutput %y: int32[4, 5]\n", {{4, 5}}},
        Computed{"Hardmax",
                 "opset 18\ninput %x: float32[4, 5]\n%y = Hardmax(%x) {axis = 0}\noutput %y: float32[4, 5]\n",
                 {{4, 5}}},
        Computed{"Shrink",
                 "opset 18\ninput %x: float32[4, 5]\n%y = Shrink(%x) {lambd = 20.0, bias = 5.0}\n"
                 "output %y: float32[4, 5]\n",
                 {{4, 5}}},
        Computed{
            "LpPool",
            "opset 18\ninput %x: float32[1, 2, 6, 7]\n%y = LpPool(%x) {kernel_shape = [3, 2], pads = [1, 0, 1, 1]}\n"
            "output %y: float32[1, 2, 6, 7]\n",
            {{1, 2, 6, 7}}},
        Computed{"LpNormalization",
                 "opset 18\ninput %x: float32[3, 4, 5]\n%y = LpNormalization(%x) {axis = 1, p = 1}\n"
                 "output %y: float32[3, 4, 5]\n",
                 {{3, 4, 5}}},
        Computed{"Remainders",
                 "opset 18\ninput %x: float32[4, 5]\ninput %z: float32[5]\n%y = Mod(%x, %z) {fmod = 1}\n"
                 "output %y: float32[4, 5]\n",
                 {{4, 5}, {5}}}),
    [](const auto& test) { return std::string(test.param.name); });

/// What sizes alone tell is constant, also where it is a result.
TEST(CudaStoredTypes, ShapesAreResults) {
    const Model model = network("opset 18\ninput %x: float32[2, 3, 5]\n%y = Shape(%x) {start = 1}\n%n = Size(%x)\n"
                                "output %y: int64[2]\noutput %n: int64[]\n");
    auto inputs = inputs_of(model, {{2, 3, 5}});
    const auto found = interpreted(plan_of(model, Precision::float16, {{2, 3, 5}}), inputs, true);
    EXPECT_THAT(found[0].as<std::int64_t>(), testing::ElementsAre(3, 5));
    EXPECT_THAT(found[1].as<std::int64_t>(), testing::ElementsAre(30));
}

/// Nothing that is computed depends on them: a pattern's type, a set without elements.
TEST(CudaEmptyValues, AreConstants) {
    const Model model = network("opset 19\ninput %x: float32[2, 3]\ninput %n: int32[0]\ninput %e: float32[2, 0, 3]\n"
                                "%i = CastLike(%x, %n)\n%s = ReduceSum(%e) {keepdims = 0}\n%p = ReduceProd(%e) "
                                "{keepdims = 0}\n%t = Transpose(%e) {perm = [1, 0, 2]}\n%y = Add(%x, %s)\n"
                                "output %i: int32[2, 3]\noutput %y: float32[2, 3]\noutput %p: float32[]\n"
                                "output %t: float32[0, 2, 3]\n");
    std::vector<HostTensor> inputs;
    inputs.emplace_back("x", DataType::float32, Shape{2, 3});
    inputs.emplace_back("n", DataType::int32, Shape{0});
    inputs.emplace_back("e", DataType::float32, Shape{2, 0, 3});
    for (std::size_t i = 0; i < 6; ++i)
        inputs[0].as<float>()[i] = static_cast<float>(i) - 2.5F;
    const auto found = interpreted(plan_of(model, Precision::float32, {{2, 3}, {0}, {2, 0, 3}}), inputs, true);
    EXPECT_THAT(found[0].as<std::int32_t>(), testing::ElementsAre(-2, -1, 0, 0, 1, 2));
    EXPECT_EQ(found[1].bytes, inputs[0].bytes);
    EXPECT_THAT(found[2].as<float>(), testing::ElementsAre(1.0F));
    EXPECT_EQ(found[3].shape, (Shape{0, 2, 3}));
}

} // namespace
} // namespace lathe::test
