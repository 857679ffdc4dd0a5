// An If that OpenVINO could not compile becomes the branch that it takes.
#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

// As PyTorch exports a module that takes a signal with a batch and without: OpenVINO needs the number of dimensions,
// and sizes that are given answer what the If asks.
TEST(OpenVino, AnIfThatSizesAnswerIsItsBranch) {
    const Model model = model_from_text("opset 17\ninput %x: float32[N, T]\n"
                                        "const %one: int64[] = {1}\nconst %axis: int64[1] = {1}\n"
                                        "const %w: float32[1, 1, 2] = {1, 2}\n"
                                        "%s = Shape(%x)\n%n = Gather(%s, %one) {axis = 0}\nconst %four: int64[] = {4}\n"
                                        "%is = Equal(%n, %four)\n"
                                        "%r = If(%is) {then_branch = graph {\n%t = Unsqueeze(%x, %axis)\n"
                                        "output %t: float32[a, b, c]\n}, else_branch = graph {\n%e = Identity(%x)\n"
                                        "output %e: float32[d, f]\n}}\n"
                                        "%y = Conv(%r, %w)\noutput %y: float32[g, h, i]\n");
    CompileOptions options;
    options.shapes["x"] = {{1, 4}, {1, 4}, {2, 4}};
    const auto compiled = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    HostTensor input("x", DataType::float32, {2, 4});
    for (std::size_t i = 0; i < 8; ++i)
        input.as<float>()[i] = static_cast<float>(i);
    ASSERT_TRUE((*session)->set_input(0, input.view()));
    const auto ran = (*session)->run();
    ASSERT_TRUE(ran) << ran.error().describe();
    const auto output = (*session)->output(0);
    ASSERT_TRUE(output);
    EXPECT_EQ(output->shape, (Shape{2, 1, 3}));
    EXPECT_THAT(output->as<float>(), testing::ElementsAre(2, 5, 8, 14, 17, 20));
    // What stays open is refused as before, with what to do.
    options.shapes["x"] = {{1, 4}, {1, 4}, {2, 5}};
    const auto open = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_FALSE(open);
    EXPECT_THAT(open.error().message, HasSubstr("leaves that open"));
}

// Products of rows that grow behind an If that the data decides: requests of more samples than any before read what
// their memory held, while one after another asks for more.
TEST(OpenVino, TheResultOfAnIfIsKeptWhereSizesGrow) {
    const auto weights = [](const std::string& name, int rows, int columns) {
        std::string text =
            "const %" + name + ": float32[" + std::to_string(rows) + ", " + std::to_string(columns) + "] = {";
        for (int i = 0; i < rows * columns; ++i)
            text += i == 0 ? "0.1" : ", 0.1";
        return text + "}\n";
    };
    const Model model = model_from_text(
        "opset 17\ninput %x: float32[N, 4, 2]\nconst %limit: float32[] = {0}\n" + weights("u", 2, 10) +
        weights("v", 10, 50) + weights("w", 50, 3) +
        "%m = ReduceMean(%x) {keepdims = 0}\n%c = Greater(%m, %limit)\n"
        "%i = If(%c) {then_branch = graph {\n%t = Tanh(%x)\noutput %t: float32[a, 4, 2]\n}, else_branch = graph {\n"
        "%e = Neg(%x)\noutput %e: float32[b, 4, 2]\n}}\n"
        "%p = MatMul(%i, %u)\n%q = MatMul(%p, %v)\n%y = MatMul(%q, %w)\noutput %y: float32[N, 4, 3]\n");
    CompileOptions options;
    options.batch_plan = BatchPlan::whole;
    options.shapes["x"] = {{1, 4, 2}, {9, 4, 2}, {9, 4, 2}};
    const auto compiled = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    for (const std::int64_t samples : {2, 3, 2, 5, 7, 8}) {
        for (const float sign : {1.0F, -1.0F}) {
            HostTensor x("x", DataType::float32, {samples, 4, 2});
            for (std::size_t i = 0; i < x.as<float>().size(); ++i)
                x.as<float>()[i] = sign * (0.1F + 0.01F * static_cast<float>(i));
            ASSERT_TRUE((*session)->set_input(0, x.view()));
            const auto ran = (*session)->run();
            ASSERT_TRUE(ran) << ran.error().describe();
            const auto y = (*session)->output(0);
            ASSERT_TRUE(y);
            ASSERT_EQ(y->shape, (Shape{samples, 4, 3}));
            const auto chosen = [&](float value) { return sign > 0 ? std::tanh(value) : -value; };
            for (std::size_t i = 0; i < y->as<float>().size(); ++i) {
                const std::size_t row = i / 3 * 2;
                const float sum = chosen(x.as<float>()[row]) + chosen(x.as<float>()[row + 1]);
                ASSERT_NEAR(y->as<float>()[i], 0.5F * sum, 1e-4F) << samples << " " << i;
            }
        }
    }
}

// What torch.tensor_split becomes: its parts are read out of a sequence that a Loop of known turns fills.
TEST(Sequences, OfALoopOfKnownTurnsAreTensors) {
    HostTensor x("x", DataType::float32, {4});
    std::ranges::copy(std::vector<float>{1, 2, 3, 4}, x.as<float>().begin());
    const auto found = first_output(
        "opset 13\ninput %x: float32[4]\nconst %turns: int64[] = {2}\nconst %go: bool[] = {true}\n"
        "const %zero: int64[] = {0}\nconst %one: int64[] = {1}\nconst %ends: int64[3] = {0, 1, 3}\n"
        "const %axis: int64[1] = {0}\n%e = SequenceEmpty() {dtype = 1}\n"
        "%s = Loop(%turns, %go, %e) {body = graph {\n    input %i: int64[]\n    input %g: bool[]\n"
        "    input %q: undefined\n    const %next: int64[] = {1}\n    %h = Identity(%g)\n    %n = Add(%i, %next)\n"
        "    %f = Gather(%ends, %i)\n    %l = Gather(%ends, %n)\n    %fs = Unsqueeze(%f, %axis)\n"
        "    %ls = Unsqueeze(%l, %axis)\n    %p = Slice(%x, %fs, %ls, %axis)\n    %t = SequenceInsert(%q, %p)\n"
        "    output %h: bool[]\n    output %t: undefined\n}}\n"
        "%a = SequenceAt(%s, %zero)\n%b = SequenceAt(%s, %one)\n%y = Mul(%a, %b)\noutput %y: float32[2]\n",
        {x});
    EXPECT_EQ(found, (std::vector<float>{2, 3}));
}

} // namespace
} // namespace lathe::test
