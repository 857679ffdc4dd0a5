// The difference form against the plain one, as OpenVINO computes both.
#include "sensitivity/differences.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "onnx/onnx.hpp"
#include "sensitivity/piece.hpp"
#include "support/half.hpp"

namespace lathe::test {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

/// All four kinds, with biases, and a narrow convolution in front that is not worth it.
Model network() {
    Model model = model_from_text("opset 18\n"
                                  "input %x: float32[2, 4, 6, 6]\n"
                                  "input %w0: float32[64, 4, 1, 1]\n"
                                  "input %w1: float32[64, 64, 3, 3]\ninput %b1: float32[64]\n"
                                  "input %w2: float32[64, 64, 3, 3]\ninput %b2: float32[64]\n"
                                  "input %w3: float32[640, 1024]\ninput %b3: float32[640]\n"
                                  "input %w4: float32[640, 512]\n"
                                  "%v0 = Conv(%x, %w0) {name = \"narrow\"}\n"
                                  "%v1 = Conv(%v0, %w1, %b1) {name = \"conv\", pads = [1, 1, 1, 1]}\n"
                                  "%r1 = Relu(%v1)\n"
                                  "%v2 = ConvTranspose(%r1, %w2, %b2) {name = \"transposed\", pads = [1, 1, 1, 1]}\n"
                                  "%m = AveragePool(%v2) {kernel_shape = [3, 3], strides = [1, 1]}\n%t = Tanh(%m)\n"
                                  "%f = Flatten(%t)\n"
                                  "%v3 = Gemm(%f, %w3, %b3) {name = \"gemm\", transB = 1, alpha = 0.5, beta = 2.0}\n"
                                  "%r3 = Sigmoid(%v3)\n"
                                  "%y = MatMul(%r3, %w4) {name = \"matmul\"}\n"
                                  "output %y: float32[2, 512]\n");
    model.graph.inputs.resize(1);
    const auto add = [&](const std::string& name, const Shape& shape, float scale, std::uint32_t seed) {
        auto values = noise(static_cast<std::size_t>(element_count(shape)), seed);
        for (float& value : values)
            value *= scale;
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, shape, values));
    };
    add("w0", {64, 4, 1, 1}, 1, 1);
    add("w1", {64, 64, 3, 3}, 0.05F, 2);
    add("b1", {64}, 1, 3);
    add("w2", {64, 64, 3, 3}, 0.05F, 4);
    add("b2", {64}, 1, 5);
    add("w3", {640, 1024}, 0.1F, 6);
    add("b3", {640}, 1, 7);
    add("w4", {640, 512}, 0.1F, 8);
    EXPECT_TRUE(infer_shapes(model));
    return model;
}

const Backend& cpu() { return **default_backend(); }

std::vector<float> copy(const Values& values, const std::string& name) {
    const auto view = values.at(name).as<float>();
    return {view.begin(), view.end()};
}

double power(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += std::pow(static_cast<double>(a[i] - b[i]), 2);
    return sum;
}

class Differences : public testing::Test {
protected:
    void SetUp() override {
        auto made = in_differences(model_, model_.graph, references_);
        ASSERT_TRUE(made) << made.error().describe();
        form_ = std::move(*made);
        ASSERT_TRUE(verify(form_));
        Model shown = model_;
        for (const auto& [value, input] : references_) {
            if (shown.graph.is_output(value)) continue;
            shown.graph.outputs.push_back(*model_.graph.info(value));
        }
        for (const Model* each : {&shown, &form_}) {
            auto piece = Piece::compile(cpu(), *each, 1);
            ASSERT_TRUE(piece) << piece.error().describe();
            pieces_.push_back(std::move(*piece));
        }
    }

    /// The form's output for `x`, with what the float network computes for `base` as reference.
    std::vector<float> by_differences(HostTensor& base, HostTensor& x) {
        Values values{{"x", base.view()}};
        const auto computed = pieces_[0].run({}, values);
        EXPECT_TRUE(computed);
        for (const auto& [value, input] : references_)
            values.emplace(input, value == "x" ? base.view() : computed->at(value));
        const auto outputs = pieces_[1].run(Values{{"x", x.view()}}, values);
        EXPECT_TRUE(outputs) << outputs.error().describe();
        return copy(*outputs, "y");
    }
    std::vector<float> plainly(HostTensor& x) {
        const auto outputs = pieces_[0].run({}, Values{{"x", x.view()}});
        EXPECT_TRUE(outputs);
        return copy(*outputs, "y");
    }
    static HostTensor input(float change) {
        HostTensor tensor("x", DataType::float32, {2, 4, 6, 6});
        const auto values = noise(288, 11);
        const auto changes = noise(288, 12);
        for (std::size_t i = 0; i < 288; ++i)
            tensor.as<float>()[i] = values[i] + change * changes[i];
        return tensor;
    }

    Model model_ = network();
    References references_;
    Model form_;
    std::vector<Piece> pieces_;
};

TEST_F(Differences, TakesTheHeavyLayersInBfloat16) {
    std::vector<std::string> half;
    for (const auto& node : form_.graph.nodes) {
        const auto info = form_.graph.info(node->output(0));
        if (!node->is("Cast") && info && info->type == DataType::bfloat16) half.push_back(node->name);
    }
    EXPECT_THAT(half, UnorderedElementsAre("conv", "transposed", "gemm", "matmul")) << "narrow multiplies too little";
    EXPECT_THAT(references_,
                UnorderedElementsAre(Pair("v0", testing::_), Pair("v1", testing::_), Pair("r1", testing::_),
                                     Pair("v2", testing::_), Pair("f", testing::_), Pair("v3", testing::_),
                                     Pair("r3", testing::_), Pair("y", testing::_)));
    EXPECT_EQ(form_.graph.inputs.size(), 1 + references_.size());
}

TEST_F(Differences, WithoutADifferenceGivesTheReference) {
    HostTensor base = input(0);
    EXPECT_EQ(by_differences(base, base), plainly(base));
}

TEST_F(Differences, KeepsSmallDifferencesWhichBfloat16Loses) {
    HostTensor base = input(0);
    HostTensor changed = input(1e-3F);
    const std::vector<float> before = plainly(base);
    const std::vector<float> after = plainly(changed);
    ASSERT_GT(power(after, before), 0);
    EXPECT_LT(power(by_differences(base, changed), after), 0.01 * power(after, before)) << "mostly what FP32 rounds";

    HostTensor rounded = changed;
    for (float& value : rounded.as<float>())
        value = float_from_bfloat16(bfloat16_from_float(value));
    EXPECT_GT(power(plainly(rounded), after), 0.1 * power(after, before)) << "the test above could not fail";
}

TEST_F(Differences, LargeDifferencesToo) {
    HostTensor base = input(0);
    HostTensor changed = input(1);
    const std::vector<float> after = plainly(changed);
    EXPECT_LT(power(by_differences(base, changed), after), 1e-4 * power(after, plainly(base)));
}

TEST(DifferenceForm, OtherLayersStayAsTheyAre) {
    Model small = model_from_text("opset 18\ninput %x: float32[2, 8, 4, 4]\ninput %w: float32[8, 8, 3, 3]\n"
                                  "%c = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
                                  "%a = Relu(%c)\n%s = Reshape(%a, %shape)\n%y = MatMul(%s, %s)\n"
                                  "output %y: float32[16, 16]\n");
    small.graph.inputs.resize(1);
    add_weights(small, "w", {8, 8, 3, 3}, 1);
    const std::vector<std::int64_t> shape{16, 16};
    small.graph.initializers.emplace("shape", Tensor::of_int64s("shape", {2}, std::span(shape)));
    ASSERT_TRUE(infer_shapes(small));
    References references;
    const auto same = in_differences(small, small.graph, references);
    ASSERT_TRUE(same) << same.error().describe();
    EXPECT_TRUE(references.empty());
    EXPECT_EQ(same->graph.nodes.size(), small.graph.nodes.size());

    Model open = network(); // sizes that are not known
    open.graph.value_infos.clear();
    const auto unknown = in_differences(open, open.graph, references);
    ASSERT_TRUE(unknown);
    EXPECT_TRUE(references.empty());
}

} // namespace
} // namespace lathe::test
