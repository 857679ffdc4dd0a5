// What is written runs: in ONNX Runtime, and in TensorRT-RTX's parser and builder.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/given.hpp"
#include "quantize/quantize.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using test::graph;
using test::plan;
using test::same_ranges;

std::string random_weight(const std::string& name, const Shape& shape, std::mt19937& random) {
    const auto count = static_cast<std::size_t>(element_count(shape));
    std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(count) / 16.0F));
    std::string text = "const %" + name + ": float32[";
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    text += "] = {";
    for (std::size_t i = 0; i < count; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(normal(random));
    return text + "}\n";
}

/// Residual block with downsampling, Concat, pools, depthwise convolution and a classifier.
Model portable_network() {
    std::mt19937 random(3);
    const auto w = [&](const char* name, const Shape& shape) { return random_weight(name, shape, random); };
    return graph("opset 18\nir 8\ninput %x: float32[N, 3, 32, 32]\n" + w("stem", {16, 3, 3, 3}) +
                 w("a", {16, 16, 1, 1}) + w("b", {16, 16, 3, 3}) + w("bias", {16}) + w("c", {16, 16, 1, 1}) +
                 w("e", {16, 1, 3, 3}) + w("t", {16, 16, 2, 2}) + w("fc", {20, 32}) + w("fcb", {20}) +
                 "%h0 = Conv(%x, %stem) {pads = [1, 1, 1, 1]}\n%h = Relu(%h0)\n"
                 "%p = MaxPool(%h) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                 "%d = Conv(%p, %a)\n%m0 = Conv(%p, %b, %bias) {pads = [1, 1, 1, 1]}\n"
                 "%s0 = Add(%m0, %d)\n%s = Relu(%s0)\n"
                 "%u0 = Conv(%s, %c)\n%v0 = Add(%u0, %s)\n%v = Relu(%v0)\n"
                 "%o0 = Conv(%v, %e) {group = 16, pads = [1, 1, 1, 1]}\n%o = Relu(%o0)\n"
                 "%up0 = ConvTranspose(%o, %t) {strides = [2, 2]}\n%up = Relu(%up0)\n"
                 "%dn = MaxPool(%up) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                 "%cat = Concat(%dn, %v) {axis = 1}\n"
                 "%g = GlobalAveragePool(%cat)\n%f = Flatten(%g)\n"
                 "%y = Gemm(%f, %fc, %fcb) {transB = 1}\noutput %y: float32[N, 20]\n");
}

/// Runs a script of this folder. Skips where the Python or a module of it is missing.
void run_script(const std::string& script, const std::string& arguments) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr || *python == '\0') GTEST_SKIP() << "SKIPPED: LATHE_PYTHON is not set";
    const auto result = test::run_command(std::string("'") + python + "' '" + test::source_path("tests/quantize/") +
                                          script + "' " + arguments);
    if (result.exit_code == 77) GTEST_SKIP() << result.output;
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
}

/// Guessed ranges: [0, highest] after Relu and Clip, [-1, 1] for the input, [-highest, highest] elsewhere.
std::map<std::string, Range> guessed_ranges(const Model& model, const QuantizationPlan& plan, float highest) {
    auto ranges = same_ranges(plan, {-highest, highest});
    for (const auto& node : model.graph.nodes) {
        const auto found = ranges.find(node->output(0));
        const bool positive = node->is("Relu") || node->is("Clip") || node->is("MaxPool") || node->is("Concat") ||
                              node->is("GlobalAveragePool") || node->is("Flatten");
        if (positive && found != ranges.end()) found->second = {0.0F, highest};
    }
    for (const ValueInfo& input : model.graph.inputs)
        ranges[input.name] = {-1.0F, 1.0F};
    return ranges;
}

class Runtimes : public ::testing::Test {
protected:
    /// Saves the float model and its quantised form for the target.
    void write(const Model& model, Target target, float highest) {
        const auto planned = plan(model, target);
        EXPECT_EQ(planned.quantized_nodes, planned.heavy_nodes);
        const auto result = insert_quantization(model, planned, guessed_ranges(model, planned, highest));
        ASSERT_TRUE(result) << result.error().describe();
        const auto saved_float = save_onnx(model, folder / "float.onnx");
        ASSERT_TRUE(saved_float) << saved_float.error().describe();
        const auto saved = save_onnx(*result, folder / "int8.onnx");
        ASSERT_TRUE(saved) << saved.error().describe();
    }
    std::string file(const std::string& name) const { return "'" + (folder / name).string() + "'"; }

    test::TemporaryFolder folder;
};

TEST_F(Runtimes, OnnxRuntimeRunsEveryTarget) {
    for (const Target target : {Target::openvino, Target::tensorrt}) {
        ASSERT_NO_FATAL_FAILURE(write(portable_network(), target, 4.0F));
        run_script("check_onnxruntime.py", file("float.onnx") + " " + file("int8.onnx") + " 0.95 QuantizeLinear=1");
    }
}

TEST_F(Runtimes, OnnxRuntimeGetsInt8Kernels) {
    ASSERT_NO_FATAL_FAILURE(write(portable_network(), Target::onnxruntime, 4.0F));
    run_script("check_onnxruntime.py", file("float.onnx") + " " + file("int8.onnx") +
                                           " 0.95 QLinearConv=5 QLinearAdd=2 QLinearGlobalAveragePool=1");
}

TEST_F(Runtimes, TensorrtRtxBuilds) {
    ASSERT_NO_FATAL_FAILURE(write(portable_network(), Target::tensorrt, 4.0F));
    run_script("check_tensorrt_rtx.py", file("int8.onnx"));
}

// An old calibration cache and the ONNX, as TensorRT 11 wants them.
TEST_F(Runtimes, TensorrtRtxBuildsFromACalibrationCache) {
    const Model model = portable_network();
    GivenRanges old;
    for (const std::string& name : float_activations(model))
        old.tensors.push_back({name, {-4.0F, 4.0F}, 0});
    const auto text = print_tensorrt_cache(old, {"8601", "EntropyCalibration2"});
    ASSERT_TRUE(text);
    const auto cache = parse_tensorrt_cache(*text, "old.cache");
    ASSERT_TRUE(cache) << cache.error().describe();
    const auto matched = match_given(model, *cache);
    ASSERT_TRUE(matched) << matched.error().describe();
    QuantizeOptions options;
    options.target = Target::tensorrt;
    const auto outcome = quantize_model(model, matched->ranges, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->plan.quantized_nodes, outcome->plan.heavy_nodes);
    const auto saved = save_onnx(outcome->model, folder / "int8.onnx");
    ASSERT_TRUE(saved) << saved.error().describe();
    run_script("check_tensorrt_rtx.py", file("int8.onnx"));
}

// The check can fail: TensorRT refuses what we write for a CPU, with a zero point other than 0.
TEST_F(Runtimes, TensorrtRtxRefusesAModelForOpenvino) {
    ASSERT_NO_FATAL_FAILURE(write(portable_network(), Target::openvino, 4.0F));
    run_script("check_tensorrt_rtx.py", file("int8.onnx") + " refused");
}

// Not calibrated: the ranges after ReLU6 are known, the others guessed. Structure is what is tested here.
TEST_F(Runtimes, Mobilenet) {
    const std::string path = test::shared_data("models/mobilenet_v1_0.75_224.onnx");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: no " << path;
    const auto model = load_onnx(path);
    ASSERT_TRUE(model) << model.error().describe();
    ASSERT_NO_FATAL_FAILURE(write(*model, Target::tensorrt, 6.0F));
    run_script("check_tensorrt_rtx.py", file("int8.onnx"));
    ASSERT_NO_FATAL_FAILURE(write(*model, Target::openvino, 6.0F));
    run_script("check_onnxruntime.py", file("float.onnx") + " " + file("int8.onnx") + " 0.5 QuantizeLinear=28");
}

} // namespace
} // namespace lathe
