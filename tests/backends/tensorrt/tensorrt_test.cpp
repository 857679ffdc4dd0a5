// The TensorRT backend: builds on any machine with TensorRT-RTX's libraries, with or without a GPU. Skipped, with the
// cause, where the libraries are missing or the product needs a GPU that is not there.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/api/tensorrt.hpp"
#include "backends/models.hpp"
#include "runtime/engine.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using test::model_from_text;

/// Two convolutions with 64 x 64 x 3 x 3 weights and a classifier.
Model network() {
    const auto ramp = [](const std::string& name, const std::string& shape, std::size_t count) {
        std::string text = "const %" + name + ": float32[" + shape + "] = {";
        for (std::size_t i = 0; i < count; ++i)
            text += (i == 0 ? "" : ", ") + std::to_string(static_cast<double>(i * 7919 % 1000) / 5e4 - 0.01);
        return text + "}\n";
    };
    return model_from_text(
        "opset 18\nir 8\ninput %x: float32[N, 64, 8, 8]\n" + ramp("a", "64, 64, 3, 3", 36864) +
        ramp("b", "64, 64, 3, 3", 36864) + ramp("fc", "64, 10", 640) +
        "%c = Conv(%x, %a) {pads = [1, 1, 1, 1]}\n%r = Relu(%c)\n%d = Conv(%r, %b) {pads = [1, 1, 1, 1]}\n"
        "%s = Add(%d, %x)\n%g = GlobalAveragePool(%s)\n%f = Flatten(%g)\n%m = MatMul(%f, %fc)\n"
        "%y = Softmax(%m)\noutput %y: float32[N, 10]\n");
}

/// A quantised convolution, symmetric int8, weights folded; with a MaxPool between DequantizeLinear and it if asked.
Model quantised(bool pooled = false) {
    std::string bytes;
    for (std::size_t i = 0; i < 36864; ++i)
        bytes += (i == 0 ? "" : ", ") + std::to_string(static_cast<int>(i * 7919 % 255) - 127);
    // 3x3 with stride 1 and padding: the shape stays.
    const std::string pool = pooled ? "%p = MaxPool(%d) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n" : "";
    return model_from_text("opset 18\nir 8\ninput %x: float32[N, 64, 8, 8]\nconst %s: float32[] = {0.02}\n"
                           "const %z: int8[] = {0}\nconst %ws: float32[] = {0.001}\nconst %wq: int8[64, 64, 3, 3] = {" +
                           bytes + "}\n%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n" + pool +
                           "%w = DequantizeLinear(%wq, %ws, %z)\n%c = Conv(%" + (pooled ? "p" : "d") +
                           ", %w) {pads = [1, 1, 1, 1]}\n%y = Relu(%c)\noutput %y: float32[N, 64, 8, 8]\n");
}

class TensorRt : public ::testing::Test {
protected:
    void SetUp() override {
        const auto backend = backend_for_device("tensorrt");
        if (!backend) GTEST_SKIP() << "SKIPPED: " << backend.error().describe();
        if ((*backend)->availability().version.find("RTX") == std::string::npos)
            GTEST_SKIP() << "SKIPPED: this TensorRT builds only where a GPU is";
    }
    static BuildOptions options(Precision precision = Precision::float32) {
        BuildOptions build;
        build.device = "tensorrt";
        build.precision = precision;
        return build;
    }
    /// The plan's size in bytes; 0 with a failure.
    static std::size_t plan_bytes(const Model& model, const BuildOptions& build) {
        test::TemporaryFolder folder;
        auto engine = Engine::build(model, build);
        EXPECT_TRUE(engine) << engine.error().describe();
        if (!engine) return 0;
        EXPECT_TRUE(engine->save(folder / "m.engine"));
        return engine->info().blob_bytes;
    }
    /// Of the network's first layer of this type; where a GPU shows the engine's own layers instead, those are not
    /// looked at: types are the builder's there.
    static void expect_precision(const Engine& engine, const std::string& type, const std::string& precision) {
        if (!has_gpu()) {
            EXPECT_EQ(engine.layers_from(), "network");
        }
        const auto layers = engine.layers();
        ASSERT_TRUE(layers);
        ASSERT_FALSE(layers->empty());
        if (engine.layers_from() == "engine") return;
        const auto found = std::ranges::find(*layers, type, &LayerInfo::type);
        ASSERT_NE(found, layers->end()) << type;
        EXPECT_EQ(found->precision, precision) << type;
    }
    static bool has_gpu() { return std::filesystem::exists("/proc/driver/nvidia/version"); }
};

TEST_F(TensorRt, BuildsEveryPrecisionAndSaysSo) {
    for (const auto& [precision, name] : std::map<Precision, std::string>{{Precision::float32, "fp32"},
                                                                          {Precision::tensor_float32, "fp32"},
                                                                          {Precision::float16, "fp16"},
                                                                          {Precision::bfloat16, "bf16"}}) {
        const auto engine = Engine::build(network(), options(precision));
        ASSERT_TRUE(engine) << engine.error().describe();
        expect_precision(*engine, "Convolution", name);
        expect_precision(*engine, "MatrixMultiply", name);
        expect_precision(*engine, "SoftMax", "fp32");
        const auto report = engine->report();
        ASSERT_TRUE(report);
        EXPECT_NEAR(report->precision_share.at(name), 1.0, 1e-9);
        EXPECT_TRUE(has_gpu() || std::ranges::any_of(report->fallbacks, [](const std::string& note) {
                        return note.find("told from the network: no GPU here") != std::string::npos;
                    }));
    }
    const auto engine = Engine::build(quantised(), options(Precision::int8));
    ASSERT_TRUE(engine) << engine.error().describe();
    expect_precision(*engine, "Convolution", "int8");
    expect_precision(*engine, "Activation", "fp16");
    // Max pooling chooses among the dequantised values.
    const auto pooled = Engine::build(quantised(true), options(Precision::int8));
    ASSERT_TRUE(pooled) << pooled.error().describe();
    expect_precision(*pooled, "Convolution", "int8");
}

/// A product with a million weights.
Model large_product() {
    Model model = model_from_text("opset 18\nir 8\ninput %x: float32[N, 1024]\nconst %w: float32[1, 1] = {1}\n"
                                  "%y = MatMul(%x, %w)\noutput %y: float32[N, K]\n");
    std::vector<float> values(std::size_t{1024} * 1024);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i * 7919 % 1000) / 5e4F - 0.01F;
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {1024, 1024}, values));
    return model;
}

TEST_F(TensorRt, WeightsAreStoredInThePrecision) {
    const auto weights = static_cast<double>(1024 * 1024);
    const auto fp32 = static_cast<double>(plan_bytes(large_product(), options()));
    const auto fp16 = static_cast<double>(plan_bytes(large_product(), options(Precision::float16)));
    const auto bf16 = static_cast<double>(plan_bytes(large_product(), options(Precision::bfloat16)));
    // Beside the weights there are kernels, which differ a little.
    EXPECT_NEAR(fp32 - fp16, 2 * weights, 0.5 * weights);
    EXPECT_NEAR(fp32 - bf16, 2 * weights, 0.5 * weights);
    EXPECT_GT(fp16, 2 * weights);
}

TEST_F(TensorRt, SavedEnginesLoadAndSayWhatTheyAre) {
    test::TemporaryFolder folder;
    BuildOptions build = options(Precision::float16);
    build.shapes["x"] = {{1, 64, 8, 8}, {4, 64, 8, 8}, {16, 64, 8, 8}};
    build.more_profiles.push_back({{"x", {{32, 64, 8, 8}, {32, 64, 8, 8}, {64, 64, 8, 8}}}});
    auto engine = Engine::build(network(), build);
    ASSERT_TRUE(engine) << engine.error().describe();
    ASSERT_TRUE(engine->save(folder / "m.engine"));
    const auto loaded = Engine::load(folder / "m.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_FALSE(loaded->info().recompiled);
    EXPECT_EQ(loaded->info().inputs.at(0).range.describe(), "1x64x8x8..4x64x8x8..64x64x8x8");
    EXPECT_EQ(loaded->info().profiles.size(), 2U);
    EXPECT_EQ(loaded->info().outputs.at(0).name, "y");
    expect_precision(*loaded, "Convolution", "fp16");
    // Engines are built and described without a GPU; running one says what is missing.
    if (has_gpu()) return;
    const auto session = loaded->make_session();
    ASSERT_FALSE(session);
    EXPECT_NE(session.error().describe().find("driver"), std::string::npos) << session.error().describe();
}

TEST_F(TensorRt, OptionsReachTheBuilder) {
    Model model = network();
    TensorRtOptions wanted;
    wanted.strip_weights = true;
    set_tensorrt_options(model, wanted);
    EXPECT_EQ(*tensorrt_options_of(model), wanted);
    // TensorRT-RTX strips plans only with a GPU; what it lacks is said.
    if (!has_gpu()) {
        const auto stripped = Engine::build(model, options());
        ASSERT_FALSE(stripped);
        EXPECT_NE(stripped.error().hint.find("where a GPU is"), std::string::npos) << stripped.error().describe();
    }
    wanted = {};
    wanted.optimization_level = 0;
    set_tensorrt_options(model, wanted);
    EXPECT_GT(plan_bytes(model, options()), 200'000U);
    wanted = {};
    wanted.compute_capabilities = {89, 120};
    set_tensorrt_options(model, wanted);
    EXPECT_GT(plan_bytes(model, options()), 200'000U);
    wanted.compute_capabilities = {12};
    set_tensorrt_options(model, wanted);
    const auto unknown = Engine::build(model, options());
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().where.find("--compute-capability"), std::string::npos);
    // What TensorRT-RTX does not promise is no option of it.
    for (bool TensorRtOptions::*option :
         {&TensorRtOptions::hardware_compatible, &TensorRtOptions::version_compatible}) {
        wanted = {};
        wanted.*option = true;
        set_tensorrt_options(model, wanted);
        const auto lacking = Engine::build(model, options());
        ASSERT_FALSE(lacking);
        EXPECT_EQ(lacking.error().code, ErrorCode::unsupported);
    }
}

TEST_F(TensorRt, WorkspaceAndTimingCache) {
    BuildOptions build = options();
    build.workspace_bytes = std::size_t{64} << 20;
    EXPECT_GT(plan_bytes(network(), build), 200'000U);
    // TensorRT-RTX times nothing while building: a file for it is not ignored.
    const test::TemporaryFolder folder;
    build.timing_cache = folder / "times.cache";
    const auto engine = Engine::build(network(), build);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().where, "--timing-cache");
    EXPECT_FALSE(std::filesystem::exists(build.timing_cache));
}

TEST_F(TensorRt, RefusalsNameNodeAndCure) {
    // A bias behind DequantizeLinear from int32, as ONNX Runtime's quantiser writes it.
    const Model model = model_from_text(
        "opset 18\nir 8\ninput %x: float32[N, 1, 4, 4]\nconst %s: float32[] = {0.02}\nconst %z: int8[] = {0}\n"
        "const %wq: int8[1, 1, 1, 1] = {5}\nconst %bq: int32[1] = {100}\nconst %bs: float32[] = {0.0004}\n"
        "const %bz: int32[] = {0}\n"
        "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n"
        "%w = DequantizeLinear(%wq, %s, %z)\n%b = DequantizeLinear(%bq, %bs, %bz)\n%y = Conv(%d, %w, %b)\n"
        "output %y: float32[N, 1, 4, 4]\n");
    const auto engine = Engine::build(model, options());
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::unsupported);
    EXPECT_NE(engine.error().message.find("DequantizeLinear"), std::string::npos) << engine.error().describe();
    EXPECT_NE(engine.error().hint.find("--lint"), std::string::npos) << engine.error().describe();
}

TEST_F(TensorRt, ThePrecisionAskedForMustBeThere) {
    const auto int8 = Engine::build(network(), options(Precision::int8));
    ASSERT_FALSE(int8);
    EXPECT_NE(int8.error().hint.find("lathe quantize"), std::string::npos);
    // Every product holds a weight that FP16 cannot: nothing is left to compute in it.
    const Model wide =
        model_from_text("opset 18\nir 8\ninput %x: float32[N, 2]\nconst %w: float32[2, 2] = {1e6, 1, 1, 1}\n"
                        "%y = MatMul(%x, %w)\noutput %y: float32[N, 2]\n");
    const auto fp16 = Engine::build(wide, options(Precision::float16));
    ASSERT_FALSE(fp16);
    EXPECT_EQ(fp16.error().code, ErrorCode::unsupported);
    BuildOptions allowed = options(Precision::float16);
    allowed.allow_fallback = true;
    EXPECT_FALSE(Engine::build(wide, allowed)); // nothing at all in FP16
}

TEST_F(TensorRt, ShapesThatContradictTheModelAreRefused) {
    BuildOptions build = options();
    build.shapes["x"] = {{1, 32, 8, 8}, {1, 32, 8, 8}, {1, 32, 8, 8}};
    const auto engine = Engine::build(network(), build);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(engine.error().where, "x");
}

/// Asks to stop once the builder is at work.
class Stopper final : public Progress {
public:
    void begin(std::string_view stage, std::size_t /*total*/) override {
        if (stage.starts_with("TensorRT")) stopped_ = true;
        ++stages;
    }
    bool cancelled() const override { return stopped_; }
    int stages = 0;

private:
    bool stopped_ = false;
};

TEST_F(TensorRt, StopsWhenAsked) {
    Stopper stopper;
    BuildOptions build = options();
    build.progress = &stopper;
    const auto engine = Engine::build(network(), build);
    EXPECT_GT(stopper.stages, 0);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::cancelled);
}

TEST_F(TensorRt, DamagedBlobsAreRefused) {
    const auto backend = backend_for_device("tensorrt");
    ASSERT_TRUE(backend);
    const auto compiled = (*backend)->compile(network(), [] {
        CompileOptions compile;
        compile.shapes["x"] = {{1, 64, 8, 8}, {1, 64, 8, 8}, {1, 64, 8, 8}};
        return compile;
    }());
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain);
    const std::string blob = chain->flat();
    const auto load = [&](const std::string& bytes) {
        return (*backend)->load(std::as_bytes(std::span(bytes)), nullptr, {});
    };
    EXPECT_TRUE(load(blob));
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{7}, std::size_t{23}, std::size_t{100}, std::size_t{400}})
        EXPECT_FALSE(load(blob.substr(0, length))) << length;
    std::string other = blob;
    other[8] = 9;
    EXPECT_EQ(load(other).error().code, ErrorCode::mismatch);
    other = blob;
    other[30] = '\x01';
    EXPECT_FALSE(load(other));
}

} // namespace
} // namespace lathe
