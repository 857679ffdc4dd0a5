// What OpenVINO's own reader would compute otherwise than ONNX defines it. Expected values are worked out here.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

HostTensor filled(Shape shape, const std::function<float(std::size_t)>& value) {
    HostTensor tensor("x", DataType::float32, std::move(shape));
    for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
        tensor.as<float>()[i] = value(i);
    return tensor;
}

TEST(OpenVinoSemantics, SoftmaxBeforeOpset13IsOverAllFurtherAxes) {
    const HostTensor x = filled({2, 3, 2, 2}, [](std::size_t i) { return static_cast<float>(i % 7) * 0.5F; });
    for (const int axis : {1, 2, -3, -2}) {
        const auto got = first_output<float>("opset 11\ninput %x: float32[2, 3, 2, 2]\n%y = Softmax(%x) {axis = " +
                                                 std::to_string(axis) + "}\noutput %y: float32[2, 3, 2, 2]\n",
                                             {x});
        ASSERT_EQ(got.size(), 24U);
        const std::size_t length = axis == 1 || axis == -3 ? 12 : 4;
        for (std::size_t row = 0; row < 24; row += length) {
            double sum = 0;
            for (std::size_t i = row; i < row + length; ++i)
                sum += std::exp(x.as<float>()[i]);
            for (std::size_t i = row; i < row + length; ++i)
                EXPECT_NEAR(got[i], std::exp(x.as<float>()[i]) / sum, 1e-6) << "axis " << axis << ", element " << i;
        }
    }
}

TEST(OpenVinoSemantics, CornersOfAFractionalSizeAreOnes) {
    const auto resized = [&](const std::string& scale, const char* mode) {
        return first_output<float>(
            "opset 18\ninput %x: float32[1, 1, 4, 5]\nconst %scales: float32[4] = {1, 1, " + scale +
                ", 1}\n%y = Resize(%x, , %scales) {mode = \"linear\", coordinate_transformation_mode = \"" + mode +
                "\"}\noutput %y: float32[?, ?, ?, ?]\n",
            {filled({1, 1, 4, 5}, [](std::size_t i) { return static_cast<float>(10 * (i / 5) + i % 5); })});
    };
    EXPECT_EQ(resized("2", "align_corners").size(), 40U);
    EXPECT_EQ(resized("0.5", "align_corners").size(), 10U);
    EXPECT_EQ(resized("0.6", "half_pixel").size(), 10U);
    // The corners are those of 4 * 0.6 = 2.4 rows, of which there are 2: rows 0 and 3 / 1.4.
    const auto got = resized("0.6", "align_corners");
    ASSERT_EQ(got.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i)
        EXPECT_NEAR(got[i], (i < 5 ? 0 : 30 / 1.4) + static_cast<double>(i % 5), 1e-4) << i;
}

TEST(OpenVinoSemantics, ResizesByScalesThatOnlyRunningTellsAreRefused) {
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    for (const auto& [attributes, why] :
         {std::pair{"coordinate_transformation_mode = \"align_corners\"", "leaves a fraction"},
          std::pair{"antialias = 1", "with antialias"}}) {
        const auto refused =
            (*backend)->compile(model_from_text("opset 18\ninput %x: float32[1, 1, 4, 5]\ninput %scales: float32[4]\n"
                                                "%y = Resize(%x, , %scales) {name = \"soft\", mode = \"linear\", " +
                                                std::string(attributes) + "}\noutput %y: float32[?, ?, ?, ?]\n"),
                                {});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
        EXPECT_NE(refused.error().describe().find(why), std::string::npos) << refused.error().describe();
        EXPECT_NE(refused.error().describe().find("node soft"), std::string::npos) << refused.error().describe();
    }
}

TEST(OpenVinoSemantics, SoftmaxFromOpset13OnIsOverOneAxis) {
    const auto got = first_output<float>("opset 13\ninput %x: float32[1, 2, 3]\n%y = Softmax(%x) {axis = 1}\n"
                                         "output %y: float32[1, 2, 3]\n",
                                         {filled({1, 2, 3}, [](std::size_t) { return 1.0F; })});
    for (const float share : got)
        EXPECT_NEAR(share, 0.5F, 1e-6F);
}

// OpenVINO computes HardSigmoid alone; written out it is part of the convolution before it.
TEST(OpenVinoSemantics, HardSigmoidAndHardSwishAreComputedByTheConvolution) {
    constexpr std::size_t count = 2 * 16 * 3 * 3;
    const HostTensor x = filled({2, 16, 3, 3}, [](std::size_t i) { return static_cast<float>(i % 40) * 0.25F - 5; });
    for (const int opset : {7, 11, 13, 17}) {
        for (const std::string gate : {"{alpha = 0.16666667, beta = 0.5}", "{alpha = 0.2, beta = 0.5}"}) {
            for (const std::string swish : {"", "%y = Mul(%c, %g)\n", "%y = Mul(%g, %c)\n"}) {
                const std::string text =
                    "opset " + std::to_string(opset) +
                    "\ninput %x: float32[2, 16, 3, 3]\nconst %w: float32[16, 1, 1, 1] = {1, 1, 1, 1, "
                    "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}\n%c = Conv(%x, %w) {group = 16}\n" +
                    (swish.empty() ? "%y" : "%g") + " = HardSigmoid(%c) " + gate + "\n" + swish +
                    "output %y: float32[2, 16, 3, 3]\n";
                const auto got = first_output<float>(text, {x});
                ASSERT_EQ(got.size(), count);
                const float alpha = gate.find("0.2") == gate.npos ? 1.0F / 6 : 0.2F;
                for (std::size_t i = 0; i < count; ++i) {
                    const float value = x.as<float>()[i];
                    const float expected = std::clamp(alpha * value + 0.5F, 0.0F, 1.0F) * (swish.empty() ? 1 : value);
                    ASSERT_NEAR(got[i], expected, 1e-5F) << text << i;
                }
                const auto compiled = (*backend_for_device("cpu"))->compile(model_from_text(text), {});
                ASSERT_TRUE(compiled);
                const auto layers = (*compiled)->layers();
                ASSERT_TRUE(layers);
                EXPECT_TRUE(std::ranges::none_of(*layers, [](const LayerInfo& layer) { return layer.type == "Math"; }))
                    << text;
            }
        }
    }
}

TEST(OpenVinoSemantics, AveragesCountThePaddedInputAndNothingBeyond) {
    // 8 wide, padded to 10; windows of 3 begin at 0, 2, 4, 6, 8: the last covers two elements of the padded row.
    const auto got =
        first_output<float>("opset 13\ninput %x: float32[1, 1, 8, 8]\n"
                            "%y = AveragePool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], "
                            "ceil_mode = 1, count_include_pad = 1}\noutput %y: float32[1, 1, 5, 5]\n",
                            {filled({1, 1, 8, 8}, [](std::size_t) { return 36.0F; })});
    ASSERT_EQ(got.size(), 25U);
    const auto share = [](int i) { return i == 0 ? 2.0F / 3.0F : i == 4 ? 1.0F / 2.0F : 1.0F; };
    for (int i = 0; i < 5; ++i) {
        for (int j = 0; j < 5; ++j)
            EXPECT_NEAR(got[static_cast<std::size_t>(5 * i + j)], 36.0F * share(i) * share(j), 1e-4F) << i << ", " << j;
    }
}

TEST(OpenVinoSemantics, ZerosBeforeAMaxPoolCount) {
    for (const char* pad : {"Pad(%x, %p)", "Pad(%x, %p, %zero)"}) {
        const auto got =
            first_output<float>("opset 13\ninput %x: float32[1, 1, 4, 4]\n"
                                "const %p: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}\nconst %zero: float32[] = {0.0}\n"
                                "%q = " +
                                    std::string(pad) +
                                    "\n%y = MaxPool(%q) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                                    "output %y: float32[1, 1, 3, 3]\n",
                                {filled({1, 1, 4, 4}, [](std::size_t i) { return -1.0F - static_cast<float>(i); })});
        ASSERT_EQ(got.size(), 9U);
        for (std::size_t i = 0; i < 9; ++i)
            EXPECT_EQ(got[i], i == 4 ? -6.0F : 0.0F) << pad << ", element " << i;
    }
}

TEST(OpenVinoSemantics, NoWindowOfAMaxPoolBeginsInThePadding) {
    // 7 wide, padded to 9: windows of 2 begin at 0, 2, 4, 6; one at 8 would hold nothing but padding.
    for (const bool named : {false, true}) { // the shape of what is pooled is told, or follows from the input
        const auto got = first_output<float>("opset 13\ninput %x: float32[1, 1, 7]\n%n = Neg(%x)\n" +
                                                 std::string(named ? "value %n: float32[1, 1, 7]\n" : "") +
                                                 "%y = MaxPool(%n) {kernel_shape = [2], strides = [2], pads = [1, 1], "
                                                 "ceil_mode = 1}\noutput %y: float32[1, 1, ?]\n",
                                             {filled({1, 1, 7}, [](std::size_t i) { return static_cast<float>(i); })});
        EXPECT_EQ(got, (std::vector<float>{0, -1, -3, -5}));
    }
    // A window of 1 in 4 by strides of 2: a third would begin at the end.
    for (const char* more : {"", ", auto_pad = \"VALID\""}) {
        const auto got =
            first_output<float>("opset 13\ninput %x: float32[1, 1, 4]\n%y = MaxPool(%x) {kernel_shape = [1], "
                                "strides = [2], ceil_mode = 1" +
                                    std::string(more) + "}\noutput %y: float32[1, 1, ?]\n",
                                {filled({1, 1, 4}, [](std::size_t i) { return static_cast<float>(i); })});
        EXPECT_EQ(got, (std::vector<float>{0, 2})) << more;
    }
}

TEST(OpenVinoSemantics, WindowsThatAreNoneAreRefused) {
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    for (const char* windows : {"kernel_shape = [3, 3], strides = [2]", "kernel_shape = [1, 1], strides = [0, 0]",
                                "kernel_shape = [3, 3], dilations = [1]", "kernel_shape = [3, 3], pads = [1]",
                                "kernel_shape = [9223372036854775807, 3], dilations = [9223372036854775807, 1]"}) {
        for (const char* op : {"MaxPool", "AveragePool"}) {
            Model model = model_from_text("opset 19\ninput %x: float32[1, 1, 8, 8]\n%y = " + std::string(op) +
                                          "(%x) {" + windows + ", ceil_mode = 1}\noutput %y: float32[1, 1, ?, ?]\n");
            EXPECT_FALSE((*backend)->compile(std::move(model), {})) << op << " " << windows;
        }
    }
}

TEST(OpenVinoSemantics, AxesOfAResizeMayBeCountedFromTheEnd) {
    const auto got =
        first_output<float>("opset 18\ninput %x: float32[1, 1, 1, 2]\nconst %scales: float32[2] = {1.0, 2.0}\n"
                            "%y = Resize(%x, , %scales) {mode = \"nearest\", axes = [2, -1]}\n"
                            "output %y: float32[1, 1, 1, 4]\n",
                            {filled({1, 1, 1, 2}, [](std::size_t i) { return static_cast<float>(i); })});
    EXPECT_EQ(got, (std::vector<float>{0, 0, 1, 1}));
}

// More samples than the data has room for: OpenVINO writes behind it. Along the axis itself any number may be written.
TEST(OpenVinoSemantics, ScatteringMoreThanThereIsRoomForIsRefused) {
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    const auto model = [](const char* samples, const char* axis) {
        return model_from_text("opset 13\ninput %x: float32[" + std::string(samples) +
                               ", 3]\nconst %zeros: float32[2, 4] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}\n"
                               "%i = ArgMax(%x) {axis = 1, keepdims = 1}\n%v = ReduceMax(%x) {axes = [1]}\n"
                               "%y = ScatterElements(%zeros, %i, %v) {axis = " +
                               axis + "}\noutput %y: float32[2, 4]\n");
    };
    CompileOptions some, two;
    some.shapes["x"] = {{1, 3}, {2, 3}, {4, 3}};
    two.shapes["x"] = {{1, 3}, {2, 3}, {2, 3}};
    const auto open = (*backend)->compile(model("N", "1"), some);
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code, ErrorCode::unsupported);
    EXPECT_NE(open.error().describe().find("axis 0 has no room"), std::string::npos) << open.error().describe();
    EXPECT_FALSE((*backend)->compile(model("3", "-1"), {}));
    EXPECT_TRUE((*backend)->compile(model("2", "1"), {}));
    EXPECT_TRUE((*backend)->compile(model("N", "0"), some));
    EXPECT_TRUE((*backend)->compile(model("N", "1"), two));
}

TEST(OpenVinoSemantics, ATransposedConvolutionPaddedToTheSameEnlargesByItsStride) {
    const auto got = first_output<float>("opset 17\ninput %x: float32[1, 1, 3]\nconst %w: float32[1, 1, 1] = {2.0}\n"
                                         "%y = ConvTranspose(%x, %w) {auto_pad = \"SAME_UPPER\", strides = [2]}\n"
                                         "output %y: float32[1, 1, 6]\n",
                                         {filled({1, 1, 3}, [](std::size_t i) { return static_cast<float>(i + 1); })});
    EXPECT_EQ(got, (std::vector<float>{2, 0, 4, 0, 6, 0}));
}

TEST(OpenVinoSemantics, ReductionsReadTheirAxesInEveryOpset) {
    const HostTensor x = filled({2, 3, 2}, [](std::size_t i) { return 0.25F * static_cast<float>(i + 1); });
    const auto at = [&](std::size_t a, std::size_t b, std::size_t c) {
        return static_cast<double>(x.as<float>()[(a * 3 + b) * 2 + c]);
    };
    for (const char* op : {"ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"}) {
        for (const int opset : {11, 13, 17, 18}) {
            for (const int keep : {0, 1}) {
                SCOPED_TRACE(std::string(op) + ", opset " + std::to_string(opset) + ", keepdims " +
                             std::to_string(keep));
                const std::string keeps = "keepdims = " + std::to_string(keep) + "}\n";
                const std::string node = opset < 18 ? std::string(op) + "(%x) {axes = [-2], " + keeps
                                                    : std::string(op) + "(%x, %a) {" + keeps;
                const auto got =
                    first_output<float>("opset " + std::to_string(opset) + "\ninput %x: float32[2, 3, 2]\n" +
                                            (opset < 18 ? "" : "const %a: int64[1] = {-2}\n") + "%y = " + node +
                                            "output %y: float32" + (keep != 0 ? "[2, 1, 2]\n" : "[2, 2]\n"),
                                        {x});
                ASSERT_EQ(got.size(), 4U);
                for (std::size_t i = 0; i < 4; ++i) {
                    double sum = 0, squares = 0, exponentials = 0;
                    for (std::size_t b = 0; b < 3; ++b) {
                        const double value = at(i / 2, b, i % 2);
                        sum += value;
                        squares += value * value;
                        exponentials += std::exp(value);
                    }
                    const std::string name = op;
                    const double expected = name == "ReduceL1"       ? sum
                                            : name == "ReduceLogSum" ? std::log(sum)
                                            : name == "ReduceL2"     ? std::sqrt(squares)
                                            : name == "ReduceMean"   ? sum / 3
                                                                     : std::log(exponentials);
                    EXPECT_NEAR(got[i], expected, 1e-5) << "element " << i;
                }
            }
        }
    }
}

TEST(OpenVinoSemantics, LogSumExpOfInfinities) {
    const float inf = std::numeric_limits<float>::infinity();
    const auto got =
        first_output<float>("opset 17\ninput %x: float32[3, 2]\n%y = ReduceLogSumExp(%x) {axes = [1]}\n"
                            "output %y: float32[3, 1]\n",
                            {filled({3, 2}, [&](std::size_t i) { return i < 2   ? -inf
                                                                        : i < 4 ? inf
                                                                                : 200.0F; })});
    ASSERT_EQ(got.size(), 3U);
    EXPECT_EQ(got[0], -inf);
    EXPECT_EQ(got[1], inf);
    EXPECT_NEAR(got[2], 200.0F + std::log(2.0F), 1e-4F);
}

TEST(OpenVinoSemantics, TheExtremeOfInfinitiesIsInfinite) {
    const float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
    const std::vector<std::vector<float>> rows{{-infinity, -infinity, -infinity},
                                               {-most, -infinity, -most},
                                               {-1, 3, -infinity},
                                               {0.3F, 0.1F, 0.2F},
                                               {most, 1, infinity},
                                               {1e-30F, -1, -infinity}};
    for (const float sign : {1.0F, -1.0F}) {
        const std::string operation = sign > 0 ? "ReduceMax" : "ReduceMin";
        const HostTensor x = filled({6, 3}, [&](std::size_t i) { return sign * rows[i / 3][i % 3]; });
        for (const char* opset : {"13", "18"}) {
            const bool attribute = std::string(opset) == "13";
            const std::string reduced =
                std::string("opset ") + opset + "\ninput %x: float32[6, 3]\n" +
                (attribute ? "" : "const %axes: int64[1] = {1}\n") + "%y = " + operation +
                (attribute ? "(%x) {axes = [1], keepdims = 0}\n" : "(%x, %axes) {keepdims = 0}\n");
            const auto got = first_output<float>(reduced + "output %y: float32[6]\n", {x});
            ASSERT_EQ(got.size(), 6U);
            for (std::size_t i = 0; i < 6; ++i) {
                const float truth = *std::max_element(rows[i].begin(), rows[i].end());
                EXPECT_EQ(got[i], sign * truth) << operation << " of row " << i;
            }
            // As the function of Attention asks whether all of a row is masked.
            const auto masked =
                first_output<bool>(reduced + "const %none: float32[] = {" + (sign > 0 ? "-inf" : "inf") +
                                       "}\n%z = Equal(%y, %none)\noutput %z: bool[6]\n",
                                   {x});
            EXPECT_EQ(masked, (std::vector<bool>{true, false, false, false, false, false}));
        }
    }
}

TEST(OpenVinoSemantics, TheExtremeOfNarrowInfinitiesIsInfinite) {
    for (const char* type : {"float16", "bfloat16"}) {
        const HostTensor x = filled({2, 2}, [](std::size_t i) {
            return i < 2 ? -std::numeric_limits<float>::infinity() : static_cast<float>(i);
        });
        const std::string narrow = type;
        const auto masked = first_output<bool>(
            "opset 18\ninput %x: float32[2, 2]\n%n = Cast(%x) {to = " + std::string(narrow == "float16" ? "10" : "16") +
                "}\nconst %axes: int64[1] = {1}\n%y = ReduceMax(%n, %axes) {keepdims = 0}\n"
                "const %least: float32[] = {-inf}\n%none = CastLike(%least, %n)\n"
                "%z = Equal(%y, %none)\noutput %z: bool[2]\n",
            {x});
        EXPECT_EQ(masked, (std::vector<bool>{true, false})) << type;
    }
}

/// The image [1, 8, 4, 4] and the filters [2, 16, 1, 1] of the tests of joined bytes.
HostTensor waves() {
    return filled({1, 8, 4, 4}, [](std::size_t i) { return 20 * std::sin(static_cast<float>(i) * 0.7F); });
}
int weight(std::size_t i) { return static_cast<int>(i * 37 % 201) - 100; }
std::string weight_list() {
    std::string list;
    for (std::size_t i = 0; i < 32; ++i)
        list += (i == 0 ? "" : ", ") + std::to_string(weight(i));
    return list;
}

/// 8 x 8 filters that leave channels as they are.
std::string identity_list() {
    std::string list;
    for (std::size_t i = 0; i < 64; ++i)
        list += (i == 0 ? "" : ", ") + std::to_string(i % 9 == 0 ? 1 : 0);
    return list;
}

// Quantised values that are joined before a convolution: of int8, and of several zero points in one scale.
TEST(OpenVinoSemantics, JoinedBytesReachTheConvolution) {
    struct Grid {
        const char* type;
        double scale;
        int zero;
    };
    const HostTensor x = waves();
    const std::string weights = weight_list();
    const auto rounded = [](float value, const Grid& grid) {
        const bool is_signed = std::string_view(grid.type) == "int8";
        const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
        const double steps = std::nearbyint(static_cast<double>(value) / grid.scale) + grid.zero;
        return (std::clamp(steps, low, high) - grid.zero) * grid.scale;
    };
    const auto node = [](const std::string& name, const Grid& grid) {
        return "const %" + name + "s: float32[] = {" + std::to_string(grid.scale) + "}\nconst %" + name +
               "z: " + grid.type + "[] = {" + std::to_string(grid.zero) + "}\n%" + name + "q = QuantizeLinear(%x, %" +
               name + "s, %" + name + "z)\n%" + name + " = DequantizeLinear(%" + name + "q, %" + name + "s, %" + name +
               "z)\n";
    };
    const Grid narrow{"int8", 0.25, 0}, wide{"int8", 0.125, 10}, low{"uint8", 0.25, 0}, middle{"uint8", 0.25, 128};
    for (const auto& [a, b] : {std::pair{narrow, narrow}, {narrow, wide}, {narrow, low}, {low, middle}}) {
        for (const bool padded : {false, true}) {
            const std::string size = padded ? "6, 6" : "4, 4";
            const auto got = first_output<float>(
                "opset 13\ninput %x: float32[1, 8, 4, 4]\nconst %w: int8[2, 16, 1, 1] = {" + weights +
                    "}\nconst %ws: float32[] = {0.0078125}\nconst %wz: int8[] = {0}\n" + node("a", a) + node("b", b) +
                    "%c = Concat(%a, %b) {axis = 1}\n%f = DequantizeLinear(%w, %ws, %wz)\n%y = Conv(%c, %f) {pads = [" +
                    (padded ? "1, 1, 1, 1" : "0, 0, 0, 0") + "]}\noutput %y: float32[1, 2, " + size + "]\n",
                {x});
            const std::size_t border = padded ? 1 : 0, edge = 4 + 2 * border;
            ASSERT_EQ(got.size(), 2 * edge * edge);
            for (std::size_t i = 0; i < got.size(); ++i) {
                const std::size_t row = i / edge % edge, column = i % edge, k = i / (edge * edge);
                double sum = 0;
                for (std::size_t channel = 0; channel < 16; ++channel) {
                    if (row < border || column < border || row - border > 3 || column - border > 3) continue;
                    const float value = x.as<float>()[(channel % 8) * 16 + (row - border) * 4 + column - border];
                    sum += rounded(value, channel < 8 ? a : b) * weight(k * 16 + channel) * 0.0078125;
                }
                EXPECT_NEAR(got[i], sum, 1e-3) << a.type << a.zero << " " << b.type << b.zero << " at " << i;
            }
        }
    }
}

// The same where the pair follows what joins, before which OpenVINO moves it: read by one convolution, or by two.
TEST(OpenVinoSemantics, BytesOfWhatWasJoinedReachTheConvolution) {
    const HostTensor x = waves();
    const std::string weights = weight_list();
    for (const int zero : {0, -128, 7}) {
        const auto got = first_output<float>(
            "opset 13\ninput %x: float32[1, 8, 4, 4]\nconst %w: int8[2, 16, 1, 1] = {" + weights +
                "}\nconst %ws: float32[] = {0.0078125}\nconst %wz: int8[] = {0}\nconst %s: float32[] = {0.25}\n"
                "const %z: int8[] = {" +
                std::to_string(zero) +
                "}\n%r = Relu(%x)\n%j = Concat(%x, %r) {axis = 1}\n%q = QuantizeLinear(%j, %s, %z)\n"
                "%c = DequantizeLinear(%q, %s, %z)\n%c2 = DequantizeLinear(%q, %s, %z)\n"
                "%f = DequantizeLinear(%w, %ws, %wz)\n%a = Conv(%c, %f)\n%b = Conv(%c2, %f)\n%y = Add(%a, %b)\n"
                "output %y: float32[1, 2, 4, 4]\n",
            {x});
        ASSERT_EQ(got.size(), 32U);
        for (std::size_t i = 0; i < got.size(); ++i) {
            double sum = 0;
            for (std::size_t channel = 0; channel < 16; ++channel) {
                const float value = x.as<float>()[channel % 8 * 16 + i % 16];
                const float joined = channel < 8 ? value : std::max(value, 0.0F);
                const double steps = std::nearbyint(static_cast<double>(joined) / 0.25) + zero;
                sum += (std::clamp(steps, -128.0, 127.0) - zero) * 0.25 * weight(i / 16 * 16 + channel) * 0.0078125;
            }
            EXPECT_NEAR(got[i], 2 * sum, 1e-3) << "zero point " << zero << " at " << i;
        }
    }
}

// TorchScript writes scales as a Constant node.
TEST(OpenVinoSemantics, ResizeBetweenCornersByAScaleOfAConstantNode) {
    const HostTensor x = filled({1, 1, 2, 2}, [](std::size_t i) { return static_cast<float>(i) * 3; });
    const auto got = first_output<float>("opset 17\ninput %x: float32[1, 1, 2, 2]\n"
                                         "%s = Constant() {value_floats = [1.0, 1.0, 2.0, 2.0]}\n%y = Resize(%x, , %s) "
                                         "{mode = \"linear\", coordinate_transformation_mode = \"align_corners\"}\n"
                                         "output %y: float32[1, 1, 4, 4]\n",
                                         {x});
    ASSERT_EQ(got.size(), 16U);
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], static_cast<float>(i / 4) * 2 + static_cast<float>(i % 4), 1e-5) << i;
}

// torchvision's batched_nms of no boxes: a branch that is a constant without elements.
TEST(OpenVinoSemantics, AnEmptyBranchGivesNothing) {
    const std::string text = "opset 17\ninput %x: float32[4]\nconst %zero: float32[] = {0.0}\n"
                             "%sum = ReduceSum(%x) {keepdims = 0}\n%c = Less(%sum, %zero)\n"
                             "%i = If(%c) {then_branch = graph {\n  const %none: int64[0] = {}\n"
                             "  %t = Identity(%none)\n  output %t: int64[N]\n}, else_branch = graph {\n"
                             "  const %e: int64[2] = {1, 2}\n  %u = Identity(%e)\n  output %u: int64[N]\n}}\n"
                             "%y = Gather(%x, %i)\noutput %y: float32[N]\n";
    for (const float sign : {1.0F, -1.0F}) {
        const auto got =
            first_output<float>(text, {filled({4}, [&](std::size_t i) { return sign * static_cast<float>(i + 1); })});
        EXPECT_EQ(got, sign < 0 ? std::vector<float>{} : (std::vector<float>{2, 3}));
    }
}

// What is joined, quantised, and then shifted: DenseNet's batch normalisations between pairs of another tool's.
TEST(OpenVinoSemantics, WhatWasJoinedAndQuantisedMayBeShifted) {
    const HostTensor x = waves();
    for (const bool behind_relu : {false, true}) {
        const auto got = first_output<float>(
            "opset 13\ninput %x: float32[1, 8, 4, 4]\nconst %w: int8[8, 8, 1, 1] = {" + identity_list() +
                "}\nconst %ws: float32[] = {1.0}\nconst %wz: int8[] = {0}\nconst %s: float32[] = {0.25}\n"
                "const %z: uint8[] = {128}\nconst %t: float32[] = {0.5}\nconst %tz: uint8[] = {100}\n"
                "const %shift: float32[] = {1.0}\n%q = QuantizeLinear(%x, %s, %z)\n"
                "%d = DequantizeLinear(%q, %s, %z)\n%f = DequantizeLinear(%w, %ws, %wz)\n%a = Conv(%d, %f)\n"
                "%aq = QuantizeLinear(%a, %s, %z)\n%ad = DequantizeLinear(%aq, %s, %z)\n"
                "%j = Concat(%ad, %d) {axis = 1}\n" +
                (behind_relu ? "%r = Relu(%j)\n%c = QuantizeLinear(%r, %t, %tz)\n"
                             : "%c = QuantizeLinear(%j, %t, %tz)\n") +
                "%e = DequantizeLinear(%c, %t, %tz)\n%h = Add(%e, %shift)\n%hq = QuantizeLinear(%h, %t, %tz)\n"
                "%y = DequantizeLinear(%hq, %t, %tz)\noutput %y: float32[1, 16, 4, 4]\n",
            {x});
        ASSERT_EQ(got.size(), 256U);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const double value = std::nearbyint(static_cast<double>(x.as<float>()[i % 128]) / 0.25) * 0.25;
            const double joined = std::nearbyint((behind_relu ? std::max(value, 0.0) : value) / 0.5) * 0.5;
            EXPECT_NEAR(got[i], joined + 1, 1e-4) << behind_relu << " at " << i;
        }
    }
}

// Phases of an image in bytes with a zero point, as four convolutions give them.
TEST(OpenVinoSemantics, BytesThatWereJoinedBecomePixels) {
    const HostTensor x = waves();
    for (const std::string type : {"uint8", "int8"}) {
        std::string text = "opset 13\ninput %x: float32[1, 8, 4, 4]\nconst %w: int8[8, 8, 1, 1] = {" + identity_list() +
                           "}\nconst %wz: int8[] = {0}\nconst %s: float32[] = {0.25}\nconst %z: " + type + "[] = {" +
                           (type == "uint8" ? "100" : "7") +
                           "}\nconst %shift: float32[] = {1.0}\n%q = QuantizeLinear(%x, %s, %z)\n"
                           "%d = DequantizeLinear(%q, %s, %z)\n";
        for (const std::string phase : {"0", "1", "2", "3"}) {
            text += "const %ws" + phase + ": float32[] = {" + phase + ".0}\n%f" + phase +
                    " = DequantizeLinear(%w, %ws" + phase + ", %wz)\n%c" + phase + " = Conv(%d, %f" + phase + ")\n%q" +
                    phase + " = QuantizeLinear(%c" + phase + ", %s, %z)\n%d" + phase + " = DequantizeLinear(%q" +
                    phase + ", %s, %z)\n";
        }
        text.replace(text.find("{0.0}"), 5, "{4.0}");
        const auto got = first_output<float>(text + "%j = Concat(%d0, %d1, %d2, %d3) {axis = 1}\n"
                                                    "%p = DepthToSpace(%j) {blocksize = 2}\n%y = Add(%p, %shift)\n"
                                                    "output %y: float32[1, 8, 8, 8]\n",
                                             {x});
        ASSERT_EQ(got.size(), 512U);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const std::size_t row = i / 8 % 8, column = i % 8, phase = row % 2 * 2 + column % 2;
            const float read = x.as<float>()[i / 64 * 16 + row / 2 * 4 + column / 2];
            const double least = type == "uint8" ? -100 : -135; // steps that a byte holds
            const double steps = std::clamp(std::nearbyint(static_cast<double>(read) / 0.25), least, least + 255);
            const double scaled = std::clamp(steps * (phase == 0 ? 4 : static_cast<double>(phase)), least, least + 255);
            EXPECT_NEAR(got[i], scaled * 0.25 + 1, 1e-4) << type << " at " << i;
        }
    }
}

TEST(OpenVinoSemantics, BoxesThatOverlapByTheThresholdStay) {
    // Two pairs of boxes, of which one pair overlaps by a seventh (or by nothing), the other by more.
    const std::vector<float> corners{0, 0, 1, 1, 0.5F, 0.5F, 1.5F, 1.5F, 4, 4, 5, 5, 4, 4, 5, 4.9F, 9, 9, 10, 10};
    const std::vector<float> certainties{0.9F, 0.8F, 0.7F, 0.6F, 0.5F};
    HostTensor boxes("boxes", DataType::float32, {1, 5, 4}), scores("scores", DataType::float32, {1, 1, 5});
    std::ranges::copy(corners, boxes.as<float>().begin());
    std::ranges::copy(certainties, scores.as<float>().begin());
    HostTensor given("t", DataType::float32, {1});
    const auto kept = [&](const std::string& threshold, std::vector<HostTensor> inputs) {
        const auto rows = first_output<std::int64_t>(
            "opset 13\ninput %boxes: float32[1, 5, 4]\ninput %scores: float32[1, 1, 5]\n" + threshold +
                "const %most: int64[1] = {9}\n%y = NonMaxSuppression(%boxes, "
                "%scores, %most" +
                (threshold.empty() ? "" : ", %t") + ")\noutput %y: int64[N, 3]\n",
            std::move(inputs));
        std::vector<std::int64_t> found;
        for (std::size_t i = 2; i < rows.size(); i += 3)
            if (rows[i] >= 0) found.push_back(rows[i]);
        return found;
    };
    const std::vector<std::int64_t> beyond{0, 1, 2, 4};
    const float seventh = 0.25F / 1.75F;
    EXPECT_EQ(kept("const %t: float32[1] = {0.142857149}\n", {boxes, scores}), beyond);
    EXPECT_EQ(kept("const %t: float32[1] = {0.14}\n", {boxes, scores}), (std::vector<std::int64_t>{0, 2, 4}));
    for (const float limit : {seventh, 0.14F, 0.5F, 0.25F, 0.0F}) {
        given.as<float>()[0] = limit;
        EXPECT_EQ(kept("input %t: float32[1]\n", {boxes, scores, given}),
                  limit < seventh ? (std::vector<std::int64_t>{0, 2, 4}) : beyond)
            << limit;
    }
    EXPECT_EQ(kept("", {boxes, scores}), (std::vector<std::int64_t>{0, 2, 4})); // 0: any overlap
}

// In short and long rows, few rows and many (which are turned), along the last axis and another.
TEST(OpenVinoSemantics, OfEqualValuesTheFirstAreFirst) {
    struct Layout {
        std::int64_t rows, length, behind;
        std::vector<std::int64_t> counts;
    };
    for (const Layout& each :
         {Layout{2, 300, 1, {1, 5, 20, 60}}, Layout{40, 91, 1, {1, 3, 5, 8}}, Layout{2, 30, 12, {1, 4, 9}}}) {
        const std::int64_t rows = each.rows, length = each.length, behind = each.behind;
        const HostTensor x =
            filled({rows, length, behind}, [](std::size_t i) { return static_cast<float>(i * 7 % 11 % 5); });
        const std::string shape =
            std::to_string(rows) + ", " + std::to_string(length) + (behind > 1 ? ", " + std::to_string(behind) : "");
        HostTensor given("x", DataType::float32, behind > 1 ? Shape{rows, length, behind} : Shape{rows, length});
        std::ranges::copy(x.as<float>(), given.as<float>().begin());
        for (const std::int64_t k : each.counts) {
            for (const bool largest : {true, false}) {
                for (const char* sorted : {"1", "0"}) {
                    SCOPED_TRACE(shape + ": " + std::to_string(k) + (largest ? " largest" : " smallest"));
                    const auto got = first_output<std::int64_t>(
                        "opset 13\ninput %x: float32[" + shape + "]\nconst %k: int64[1] = {" + std::to_string(k) +
                            "}\n%v, %i = TopK(%x, %k) {axis = 1, largest = " + (largest ? "1" : "0") +
                            ", sorted = " + sorted + "}\noutput %i: int64[" + std::to_string(rows) + ", " +
                            std::to_string(k) + (behind > 1 ? ", " + std::to_string(behind) : "") + "]\n",
                        {given});
                    ASSERT_EQ(got.size(), static_cast<std::size_t>(rows * k * behind));
                    for (std::int64_t row = 0; row < rows * behind; ++row) {
                        const std::int64_t at = row / behind * length * behind + row % behind;
                        const auto value = [&](std::int64_t i) {
                            return x.as<float>()[static_cast<std::size_t>(at + i * behind)];
                        };
                        std::vector<std::int64_t> order(static_cast<std::size_t>(length));
                        std::iota(order.begin(), order.end(), 0);
                        std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
                            return largest ? value(a) > value(b) : value(a) < value(b);
                        });
                        for (std::int64_t i = 0; i < k; ++i) {
                            const std::int64_t place = row / behind * k * behind + i * behind + row % behind;
                            ASSERT_EQ(got[static_cast<std::size_t>(place)], order[static_cast<std::size_t>(i)])
                                << "row " << row << ", place " << i;
                        }
                    }
                }
            }
        }
    }
}

TEST(OpenVinoSemantics, TheFirstOfTheLargestIsItsIndex) {
    const HostTensor x = filled({64, 30}, [](std::size_t i) { return static_cast<float>(i * 7 % 11 % 5); });
    for (const bool most : {true, false}) {
        const auto got = first_output<std::int64_t>(
            "opset 13\ninput %x: float32[64, 30]\n%y = " + std::string(most ? "ArgMax" : "ArgMin") +
                "(%x) {axis = -1, keepdims = 0}\noutput %y: int64[64]\n",
            {x});
        ASSERT_EQ(got.size(), 64U);
        for (std::size_t row = 0; row < 64; ++row) {
            const auto values = x.as<float>().subspan(row * 30, 30);
            const auto first = most ? std::ranges::max_element(values) : std::ranges::min_element(values);
            EXPECT_EQ(got[row], first - values.begin()) << row;
        }
    }
}

// Positions that are constant as soon as sizes are known (Funnel Transformer). OpenVINO folded them itself and took
// them as weights of another form.
TEST(OpenVinoSemantics, PositionsGatheredBySizesAreThose) {
    constexpr std::size_t batch = 2, length = 3, heads = 2, depth = 3, positions = 5, width = 4;
    const HostTensor x = filled({batch, length, heads, depth}, [](std::size_t i) { return static_cast<float>(i % 7); });
    const std::array<double, 8> table{1, -2, 3, 0.5, -1, 2, 0.25, -3};
    const std::array<double, 8> w{2, -1, 0.25, 1, -3, 1.5, 0.5, -2};
    const auto got = first_output<float>(
        "opset 17\ninput %x: float32[2, 3, 2, 3]\nconst %table: float32[6, 4] = {1.0, -2.0, 3.0, 0.5, -1.0, 2.0, 0.25, "
        "-3.0, ...}\n"
        "const %w: float32[4, 2, 3] = {2.0, -1.0, 0.25, 1.0, -3.0, 1.5, 0.5, -2.0, ...}\nconst %one: int64[] = {1}\n"
        "const %three: int64[] = {3}\n"
        "const %rows: int64[5, 4] = {5, 5, 5, 5, 3, 3, 3, 3, 4, 4, 4, 4, 1, 1, 1, 1, 0, 0, 0, 0}\n"
        "%shape = Shape(%x)\n%length = Gather(%shape, %one)\n%zero = Sub(%length, %three)\n"
        "%index = Add(%rows, %zero)\n%d = GatherElements(%table, %index) {axis = 0}\n"
        "%e = Einsum(%d, %w) {equation = \"td,dnh->tnh\"}\n%y = Einsum(%x, %e) {equation = \"binh,tnh->bnit\"}\n"
        "output %y: float32[?, ?, ?, ?]\n",
        {x});
    ASSERT_EQ(got.size(), batch * heads * length * positions);
    constexpr std::array<std::size_t, positions> rows{5, 3, 4, 1, 0};
    for (std::size_t at = 0; at < got.size(); ++at) {
        const std::size_t t = at % positions, i = at / positions % length, n = at / positions / length % heads,
                          b = at / positions / length / heads;
        double sum = 0;
        for (std::size_t h = 0; h < depth; ++h)
            for (std::size_t d = 0; d < width; ++d)
                sum += static_cast<double>(x.as<float>()[((b * length + i) * heads + n) * depth + h]) *
                       table[(rows[t] * width + d) % 8] * w[((d * heads + n) * depth + h) % 8];
        EXPECT_NEAR(got[at], sum, 1e-4) << at;
    }
}

TEST(OpenVinoSemantics, FewerIndicesThanDataAlongOtherAxes) {
    // y[i, j, k] = x[i, index[i, j, k], k], of 1 of 2, 4 of 3 and 2 of 4 places.
    constexpr std::array<std::size_t, 8> index{2, 0, 1, 1, 0, 2, 2, 2};
    const HostTensor x = filled({2, 3, 4}, [](std::size_t i) { return static_cast<float>(i * 5 % 23); });
    const auto found = [&](const std::string& batch) {
        CompileOptions options;
        options.shapes = {{"x", {{1, 3, 4}, {2, 3, 4}, {3, 3, 4}}}};
        const auto compiled =
            cpu().compile(model_from_text("opset 13\ninput %x: float32[" + batch + ", 3, 4]\n" +
                                          "const %i: int64[1, 4, 2] = {2, 0, 1, 1, 0, 2, -1, -1}\n"
                                          "%y = GatherElements(%x, %i) {axis = -2}\noutput %y: float32[1, 4, 2]\n"),
                          batch == "N" ? options : CompileOptions{});
        EXPECT_TRUE(compiled) << compiled.error().describe();
        return compiled ? outputs_of(**compiled, {x}) : std::vector<HostTensor>{};
    };
    for (const char* batch : {"2", "N"}) {
        const auto outputs = found(batch);
        ASSERT_EQ(outputs.size(), 1U);
        ASSERT_EQ(outputs[0].shape, (Shape{1, 4, 2}));
        for (std::size_t i = 0; i < index.size(); ++i)
            EXPECT_EQ(outputs[0].as<float>()[i], x.as<float>()[index[i] * 4 + i % 2]) << batch << i;
    }
}

TEST(OpenVinoSemantics, BytesWrapAround) {
    const auto wrapped = [](const std::string& type, const std::string& op, auto a, auto b) {
        using T = decltype(a);
        HostTensor x("a", sizeof(T) == 1 && std::is_signed_v<T> ? DataType::int8 : DataType::uint8, {1}), y = x;
        y.name = "b";
        x.as<T>()[0] = a;
        y.as<T>()[0] = b;
        const auto got = first_output<T>("opset 14\ninput %a: " + type + "[1]\ninput %b: " + type + "[1]\n%y = " + op +
                                             "(%a, %b)\noutput %y: " + type + "[1]\n",
                                         {x, y});
        return got.empty() ? -1000 : static_cast<int>(got[0]);
    };
    EXPECT_EQ(wrapped("int8", "Add", std::int8_t{100}, std::int8_t{100}), -56);
    EXPECT_EQ(wrapped("int8", "Sub", std::int8_t{-100}, std::int8_t{100}), 56);
    EXPECT_EQ(wrapped("int8", "Mul", std::int8_t{-100}, std::int8_t{100}), -16);
    EXPECT_EQ(wrapped("uint8", "Add", std::uint8_t{200}, std::uint8_t{100}), 44);
    EXPECT_EQ(wrapped("uint8", "Sub", std::uint8_t{100}, std::uint8_t{200}), 156);
    EXPECT_EQ(wrapped("uint8", "Mul", std::uint8_t{200}, std::uint8_t{3}), 88);
}

// The last two samples, if they are among the first three.
TEST(OpenVinoSemantics, SlicesFromTheEndMayEndInFront) {
    const Model model = model_from_text("opset 17\ninput %x: float32[N, 2]\nconst %from: int64[2] = {-2, -1}\n"
                                        "const %to: int64[2] = {3, 2}\nconst %axes: int64[2] = {0, 1}\n"
                                        "%r = Relu(%x)\n%s = Slice(%r, %from, %to, %axes)\n%y = Neg(%s)\n"
                                        "output %y: float32[M, 1]\n");
    CompileOptions options;
    options.batch_plan = BatchPlan::whole;
    options.shapes["x"] = {{1, 2}, {6, 2}, {6, 2}};
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    for (const std::int64_t samples : {1, 2, 3, 4, 5}) {
        HostTensor x("x", DataType::float32, {samples, 2});
        for (std::size_t i = 0; i < x.as<float>().size(); ++i)
            x.as<float>()[i] = static_cast<float>(i);
        std::vector<float> wanted;
        for (std::int64_t i = std::max<std::int64_t>(samples - 2, 0); i < std::min<std::int64_t>(samples, 3); ++i)
            wanted.push_back(-static_cast<float>(2 * i + 1));
        const auto outputs = outputs_of(**compiled, {x});
        ASSERT_EQ(outputs.size(), 1U);
        ASSERT_EQ(outputs[0].shape, (Shape{static_cast<std::int64_t>(wanted.size()), 1})) << samples;
        ASSERT_TRUE(std::ranges::equal(outputs[0].as<float>(), wanted)) << samples;
    }
}

// Numbers whose squares are small beside what OpenVINO added to them.
TEST(LpNormalization, DividesByTheNormAlone) {
    for (const std::string opset : {"13", "18"}) {
        for (const std::string p : {"1", "2"}) {
            const std::string text = "opset " + opset +
                                     "\ninput %x: float32[3, 2]\n%y = LpNormalization(%x) {axis = -1, p = " + p +
                                     "}\noutput %y: float32[3, 2]\n";
            HostTensor x("x", DataType::float32, {3, 2});
            std::ranges::copy(std::vector<float>{3e-5F, -4e-5F, 0, 0, 5, 12}, x.as<float>().begin());
            const std::vector<float> found = first_output(text, {x});
            const std::vector<float> wanted = p == "1"
                                                  ? std::vector<float>{3.0F / 7, -4.0F / 7, 0, 0, 5.0F / 17, 12.0F / 17}
                                                  : std::vector<float>{0.6F, -0.8F, 0, 0, 5.0F / 13, 12.0F / 13};
            ASSERT_EQ(found.size(), wanted.size());
            for (std::size_t i = 0; i < wanted.size(); ++i)
                EXPECT_NEAR(found[i], wanted[i], 1e-5) << opset << " " << p << " " << i;
        }
    }
}

} // namespace
} // namespace lathe::test
