// Models that are very long chains end in half a minute of processor time (most of it OpenVINO's, which is quadratic in
// what it joins); slow processors that do other work besides take up to half of that more.
#include <cmath>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

constexpr std::size_t length = 10'000;
constexpr const char* in_time = "ulimit -t 60 &&";

struct Chain {
    std::string name;
    std::string constants;
    std::string first, second; ///< nodes in turns, with the value before them in the place of "@"
    bool changed;              ///< by simplify
};

Model chain_of(const Chain& chain) {
    std::string text = "opset 17\ninput %x: float32[N, 4]\n" + chain.constants;
    std::string before = "%x";
    for (std::size_t i = 0; i < length; ++i) {
        std::string node = i % 2 == 0 ? chain.first : chain.second;
        node.replace(node.find('@'), 1, before);
        before = i + 1 == length ? "%y" : "%v" + std::to_string(i);
        text += before + " = " + node + "\n";
    }
    return model_from_text(text + "output %y: float32[N, 4]\n");
}

std::vector<Chain> chains() {
    const std::string half = "const %c: float32[] = {0.5}\n";
    return {
        {"Relu", "", "Relu(@)", "Relu(@)", true},
        {"AddOfASharedScalar", half, "Add(@, %c)", "Add(@, %c)", false},
        {"MulAndSub", "const %c: float32[4] = {1.001, 1.0, 0.999, 1.0}\n", "Mul(@, %c)", "Sub(@, %c)", false},
    };
}

class LongChain : public testing::TestWithParam<Chain> {};

TEST_P(LongChain, EndsInTime) {
    const Workspace work;
    work.save(chain_of(GetParam()), "chain.onnx");
    HostTensor x("x", DataType::float32, {1, 4});
    x.as<float>()[0] = 1.0F;
    ASSERT_TRUE(write_npy(work.path("x.npy"), x.view()));
    for (const char* command :
         {"inspect chain.onnx", "simplify chain.onnx -o s.onnx", "build chain.onnx -o e --shape 1x4", "inspect e",
          "run e x.npy -o y.npy", "build chain.onnx -o batches --shape 1x4..4x4..64x4",
          "autocast chain.onnx -o a.onnx --to bf16"}) {
        const CommandResult result = work.lathe(command, in_time);
        EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output << result.errors;
    }
    // Nothing to quantise, and told at once.
    const CommandResult none = work.lathe("calibrate chain.onnx --data x.npy -o r", in_time);
    EXPECT_EQ(none.exit_code, 2) << none.errors;
    EXPECT_THAT(none.errors, testing::HasSubstr("nothing in this model to calibrate"));
}

INSTANTIATE_TEST_SUITE_P(Cli, LongChain, testing::ValuesIn(chains()), [](const auto& info) { return info.param.name; });

TEST(LongChain, OfProductsIsQuantizedInTime) {
    std::string text = "opset 17\ninput %x: float32[1, 4]\n"
                       "const %w: float32[4, 4] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}\n";
    std::string before = "%x";
    for (std::size_t i = 0; i < 1000; ++i) {
        const std::string output = i == 999 ? "%y" : "%v" + std::to_string(i);
        text += output + " = MatMul(" + before + ", %w)\n";
        before = output;
    }
    const Workspace work;
    work.save(model_from_text(text + "output %y: float32[1, 4]\n"), "chain.onnx");
    work.save_array("x.npy", {8, 4});
    for (const char* command : {"calibrate chain.onnx --data x.npy -o r", "quantize chain.onnx --ranges r -o q.onnx",
                                "build q.onnx -o e --precision int8"}) {
        const CommandResult result = work.lathe(command, in_time);
        EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output << result.errors;
    }
}

} // namespace
} // namespace lathe::test
