// The whole step on real numbers: calibrated here, run node by node in NumPy's float16 and bfloat16.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "api/calibrate.hpp"
#include "data/npy.hpp"
#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

/// "const %name: float32[shape] = {...}", normal numbers of this spread.
std::string weight(const std::string& name, const Shape& shape, float spread, std::mt19937& random) {
    std::normal_distribution<float> normal(0.0F, spread);
    std::string text = "const %" + name + ": float32[";
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    text += "] = {";
    for (std::int64_t i = 0; i < element_count(shape); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(normal(random));
    return text + "}\n";
}

/// Two convolutions and a classifier; between them a scale of 1e5, undone later, if `large`.
Model network(std::int64_t opset, bool large) {
    std::mt19937 random(5);
    const std::string scale = large ? "100000.0" : "2.0";
    const std::string text =
        "opset " + std::to_string(opset) + "\nir 8\ninput %x: float32[2, 3, 8, 8]\n" +
        weight("w1", {8, 3, 3, 3}, 0.3F, random) + weight("w2", {8, 8, 3, 3}, 0.15F, random) +
        weight("fc", {8, 5}, 0.5F, random) + weight("bias", {5}, 0.1F, random) + "const %scale: float32[1] = {" +
        scale + "}\n%c1 = Conv(%x, %w1) {name = \"c1\", pads = [1, 1, 1, 1]}\n%r1 = Relu(%c1) {name = \"r1\"}\n" +
        "%s1 = Mul(%r1, %scale) {name = \"s1\"}\n%s2 = Sqrt(%s1) {name = \"s2\"}\n" +
        "%s3 = Mul(%s2, %s2) {name = \"s3\"}\n%s4 = Div(%s3, %scale) {name = \"s4\"}\n" +
        "%c2 = Conv(%s4, %w2) {name = \"c2\", pads = [1, 1, 1, 1]}\n%r2 = Relu(%c2) {name = \"r2\"}\n" +
        "%g = GlobalAveragePool(%r2) {name = \"g\"}\n%f = Flatten(%g) {name = \"f\"}\n" +
        "%y = Gemm(%f, %fc, %bias) {name = \"y\"}\noutput %y: float32[2, 5]\n";
    auto model = parse_graph_text(text);
    EXPECT_TRUE(model) << (model ? "" : model.error().describe());
    if (!model) return {};
    model->graph.name = "network";
    return *std::move(model);
}

class Reference : public testing::Test {
protected:
    /// Calibrates, casts, and checks both models beside each other. Returns what was decided.
    std::map<std::string, std::string> run(const Model& model, const AutocastOptions& options, const char* limit,
                                           const char* more = "") {
        HostTensor pictures("x", DataType::float32, {2, 3, 8, 8});
        std::mt19937 random(9);
        std::normal_distribution<float> normal;
        for (float& value : pictures.as<float>())
            value = normal(random);
        CalibrateRequest request;
        request.all_activations = true;
        request.method = Method::minmax;
        auto calibrated = calibrate_arrays(model, {pictures}, request, no_progress());
        EXPECT_TRUE(calibrated) << (calibrated ? "" : calibrated.error().describe());
        if (!calibrated) return {};
        auto outcome = autocast_model(model, calibrated->ranges, options);
        EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().describe());
        if (!outcome) return {};
        cast_nodes = outcome->cast_nodes;
        kept_nodes = outcome->kept_nodes;
        EXPECT_TRUE(save_onnx(model, folder_ / "float.onnx"));
        EXPECT_TRUE(save_onnx(outcome->model, folder_ / "cast.onnx"));
        const std::vector<TensorView> arrays{pictures.view()};
        EXPECT_TRUE(write_npz(folder_ / "x.npz", arrays));
        const char* python = std::getenv("LATHE_PYTHON");
        if (python == nullptr || *python == '\0') {
            skipped = "LATHE_PYTHON is not set";
            return test::reasons(outcome->plan);
        }
        const std::string at = folder_.path().string();
        const auto result = test::run_command(
            std::string("'") + python + "' '" + test::source_path("tests/autocast/check_reference.py") + "' " + at +
            "/float.onnx " + at + "/cast.onnx " + at + "/x.npz " + limit + " " + more);
        if (result.exit_code == 77) skipped = result.output;
        EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 77) << result.output << result.errors;
        return test::reasons(outcome->plan);
    }
    void TearDown() override {
        if (!skipped.empty()) GTEST_SKIP() << "SKIPPED: " << skipped;
    }

    std::size_t cast_nodes = 0;
    std::size_t kept_nodes = 0;
    std::string skipped;

private:
    test::TemporaryFolder folder_;
};

TEST_F(Reference, APlainNetworkIsCastAndStaysRight) {
    run(network(18, false), {}, "0.005");
    EXPECT_EQ(kept_nodes, 0U);
    EXPECT_EQ(cast_nodes, 11U);
}

TEST_F(Reference, ValuesOf1e5StayInFp32AndTheResultIsRight) {
    const auto found = run(network(18, true), {}, "0.005", "overflows");
    EXPECT_EQ(found.at("s1"), "weight_overflow"); // the scale itself
    EXPECT_EQ(found.at("s4"), "activation_overflow");
    EXPECT_EQ(found.at("s3"), "activation_overflow");
    EXPECT_EQ(found.at("c1"), "cast");
    EXPECT_EQ(found.at("c2"), "cast");
    EXPECT_EQ(found.at("y"), "cast");
}

TEST_F(Reference, Bfloat16HoldsThem) {
    AutocastOptions options;
    options.format = bf16;
    options.error_limit = 0.05; // the pool's 64 terms
    run(network(22, true), options, "0.05");
    EXPECT_EQ(kept_nodes, 0U);
}

TEST_F(Reference, Bfloat16LiftsTheOpsetForConvolutions) {
    AutocastOptions options;
    options.format = bf16;
    const auto found = run(network(18, false), options, "0.05");
    EXPECT_EQ(found.at("c1"), "cast");
    EXPECT_EQ(found.at("g"), "deep_reduction"); // sqrt(64) 2^-8 = 0.031
}

TEST_F(Reference, RangesOfAnotherModelAreRefused) {
    const Model model = network(18, false);
    RangesFile ranges;
    ranges.key.model = "another";
    EXPECT_EQ(autocast_model(model, ranges, {}).error().code, ErrorCode::mismatch);
}

} // namespace
} // namespace lathe
