// What OpenVINO's own reader would compute otherwise than ONNX defines it. Expected values are worked out here.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"

namespace lathe::test {
namespace {

/// The first output of a model, written as text, on these inputs.
template <class T>
std::vector<T> run(const std::string& text, std::vector<HostTensor> inputs) {
    const auto backend = backend_for_device("cpu");
    EXPECT_TRUE(backend);
    const auto compiled = (*backend)->compile(model_from_text(text), {});
    EXPECT_TRUE(compiled) << compiled.error().describe();
    if (!compiled) return {};
    const auto session = (*compiled)->make_session();
    EXPECT_TRUE(session);
    for (std::size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE((*session)->set_input(i, inputs[i].view()));
    EXPECT_TRUE((*session)->run());
    const auto output = (*session)->output(0);
    EXPECT_TRUE(output);
    return {output->as<T>().begin(), output->as<T>().end()};
}

HostTensor filled(Shape shape, const std::function<float(std::size_t)>& value) {
    HostTensor tensor("x", DataType::float32, std::move(shape));
    for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
        tensor.as<float>()[i] = value(i);
    return tensor;
}

TEST(OpenVinoSemantics, SoftmaxBeforeOpset13IsOverAllFurtherAxes) {
    const HostTensor x = filled({2, 3, 2, 2}, [](std::size_t i) { return static_cast<float>(i % 7) * 0.5F; });
    for (const int axis : {1, 2, -3, -2}) {
        const auto got =
            run<float>("opset 11\ninput %x: float32[2, 3, 2, 2]\n%y = Softmax(%x) {axis = " + std::to_string(axis) +
                           "}\noutput %y: float32[2, 3, 2, 2]\n",
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

TEST(OpenVinoSemantics, SoftmaxFromOpset13OnIsOverOneAxis) {
    const auto got = run<float>("opset 13\ninput %x: float32[1, 2, 3]\n%y = Softmax(%x) {axis = 1}\n"
                                "output %y: float32[1, 2, 3]\n",
                                {filled({1, 2, 3}, [](std::size_t) { return 1.0F; })});
    for (const float share : got)
        EXPECT_NEAR(share, 0.5F, 1e-6F);
}

TEST(OpenVinoSemantics, AveragesCountThePaddedInputAndNothingBeyond) {
    // 8 wide, padded to 10; windows of 3 begin at 0, 2, 4, 6, 8: the last covers two elements of the padded row.
    const auto got = run<float>("opset 13\ninput %x: float32[1, 1, 8, 8]\n"
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
            run<float>("opset 13\ninput %x: float32[1, 1, 4, 4]\n"
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

TEST(OpenVinoSemantics, BytesWrapAround) {
    const auto wrapped = [](const std::string& type, const std::string& op, auto a, auto b) {
        using T = decltype(a);
        HostTensor x("a", sizeof(T) == 1 && std::is_signed_v<T> ? DataType::int8 : DataType::uint8, {1}), y = x;
        y.name = "b";
        x.as<T>()[0] = a;
        y.as<T>()[0] = b;
        const auto got = run<T>("opset 14\ninput %a: " + type + "[1]\ninput %b: " + type + "[1]\n%y = " + op +
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

} // namespace
} // namespace lathe::test
