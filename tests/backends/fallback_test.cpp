// Models that a GPU can run only in part: cut, saved, loaded, run, against the CPU engine on the whole. The GPU's parts
// are plans run by their interpreter, so that no GPU is needed.

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/cuda/plan/cut.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/fallback/fallback_backend.hpp"
#include "backends/models.hpp"
#include "backends/openvino/openvino_backend.hpp"
#include "onnx/onnx.hpp"

namespace lathe::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// The result, or an exception that says why there is none.
template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().describe());
    return std::move(result).value();
}
void must(const Result<void>& result) {
    if (!result) throw std::runtime_error(result.error().describe());
}

class PlanSession final : public BackendSession {
public:
    PlanSession(const cuda::Plan& plan, std::size_t inputs) : plan_(plan), views_(inputs) {}
    Result<void> set_input(std::size_t index, const TensorView& view) override {
        views_[index] = view;
        return {};
    }
    Result<void> run() override {
        LATHE_TRY(outputs_, cuda::interpret(plan_, views_));
        return {};
    }
    Result<TensorView> output(std::size_t index) override { return outputs_[index].view(); }
    Result<std::vector<LayerInfo>> profile() override { return std::vector<LayerInfo>{}; }

private:
    const cuda::Plan& plan_;
    std::vector<TensorView> views_;
    std::vector<HostTensor> outputs_;
};

class PlanModel final : public CompiledModel {
public:
    explicit PlanModel(Model model) : model_(std::move(model)) {}
    Result<void> lower() {
        LATHE_TRY(auto prepared, cuda::prepare(model_, Precision::float32));
        std::vector<Shape> shapes;
        for (const ValueInfo& input : model_.graph.inputs) {
            const Shape shape = input.shape().value_or(Shape{});
            shapes.push_back(shape);
            inputs_.push_back({input.name, input.type, {shape, shape, shape}});
        }
        LATHE_TRY(plan_, cuda::lower(prepared, shapes));
        for (std::size_t i = 0; i < plan_.model_outputs(); ++i) {
            const ValueInfo& output = model_.graph.outputs[i];
            const Shape& dims = plan_.values[plan_.outputs[i]].dims;
            outputs_.push_back({output.name, output.type, {dims, dims, dims}});
        }
        return {};
    }
    const std::vector<IoInfo>& inputs() const override { return inputs_; }
    const std::vector<IoInfo>& outputs() const override { return outputs_; }
    Result<std::unique_ptr<BackendSession>> make_session() const override {
        return std::unique_ptr<BackendSession>(std::make_unique<PlanSession>(plan_, inputs_.size()));
    }
    Result<std::vector<LayerInfo>> layers() const override {
        std::vector<LayerInfo> layers;
        for (const auto& op : plan_.ops)
            layers.push_back({op.name, op.nodes, "", "fp32", "interpreter", 0, 0});
        return layers;
    }
    Result<ByteChain> save() const override {
        LATHE_TRY(std::string onnx, serialize_onnx(model_));
        return ByteChain(std::move(onnx));
    }

private:
    Model model_;
    cuda::Plan plan_;
    std::vector<IoInfo> inputs_, outputs_;
};

class PlanBackend final : public Backend {
public:
    std::string name() const override { return "cuda"; }
    std::string device() const override { return "cuda"; }
    Availability availability() const override {
        Availability here;
        here.available = true;
        return here;
    }
    Support supports(const Node& node, const Model& model) const override {
        return cuda::lowering_support(node, model);
    }
    Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const override {
        auto made = std::make_unique<PlanModel>(with_shapes(model, options));
        LATHE_CHECK(made->lower());
        return std::unique_ptr<CompiledModel>(std::move(made));
    }
    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> blob, std::shared_ptr<const void> /*owner*/,
                                                const CompileOptions& options) const override {
        LATHE_TRY(const Model model, parse_onnx(blob));
        return compile(model, options);
    }
    Result<std::unique_ptr<ActivationSource>> observe(const Model& /*model*/, std::vector<std::string> /*tensors*/,
                                                      std::size_t /*threads*/) const override {
        return Error{ErrorCode::unsupported, "", "", ""};
    }
    std::string blob_key() const override { return "plans"; }

private:
    static Model with_shapes(Model model, const CompileOptions& options) {
        for (ValueInfo& input : model.graph.inputs) {
            const auto given = options.shapes.find(input.name);
            if (given == options.shapes.end()) continue;
            input.dims.emplace();
            for (const std::int64_t size : given->second.opt)
                input.dims->push_back(Dimension::of(size));
        }
        return model;
    }
};

struct FallbackCase {
    const char* name;
    std::string text;
    std::size_t parts;  ///< how many there must be
    std::string on_cpu; ///< an operator that must be there
};
void PrintTo(const FallbackCase& value, std::ostream* out) { *out << value.name; }

/// What the GPU has no form of: to the value `to`, x plus what lies on the diagonals of its images.
std::string diagonals(const std::string& x, const std::string& to) {
    return "const %last: int64[1] = {3}\n%d = Einsum(%" + x + ") {equation = \"abcc -> abc\"}\n" +
           "%u = Unsqueeze(%d, %last)\n%" + to + " = Add(%" + x + ", %u)\n";
}

const std::string stem = "opset 18\ninput %x: float32[1, 3, 16, 16]\ninput %w: float32[8, 3, 3, 3]\n"
                         "%c = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n%r = Relu(%c)\n";

std::vector<FallbackCase> cases() {
    return {
        {"OperatorWithoutForm", stem + diagonals("r", "a") + "%y = Mul(%r, %a)\noutput %y: float32[1, 8, 16, 16]\n", 2,
         "Einsum"},
        // What the detector's tail makes has a size that is known afterwards, and that is asked for.
        {"SizeKnownAfterwards",
         stem + "%n = NonZero(%r)\n%t = Transpose(%n) {perm = [1, 0]}\n%y = Cast(%t) {to = 1}\n"
                "%s = Shape(%t)\n%z = Cast(%s) {to = 1}\noutput %z: float32[2]\n"
                "output %y: float32[count, 4]\noutput %r: float32[1, 8, 16, 16]\n",
         2, "NonZero"},
        {"ThereAndBack",
         stem + diagonals("r", "a") +
             "%e = Conv(%a, %v) {pads = [1, 1, 1, 1]}\n%y = Relu(%e)\n"
             "output %y: float32[1, 4, 16, 16]\n",
         3, "Einsum"},
        {"BeforeTheGpu",
         "opset 18\ninput %i: float32[1, 3, 16, 16]\ninput %w: float32[8, 3, 3, 3]\n" + diagonals("i", "x") +
             "%c = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n%y = Relu(%c)\noutput %y: float32[1, 8, 16, 16]\n",
         2, "Einsum"},
        {"ControlFlow",
         stem + "const %m: int64[] = {9}\nconst %on: bool[] = {true}\n"
                "%y = Loop(%m, %on, %r) {body = graph {\n  input %i: int64[]\n  input %c: bool[]\n"
                "  input %s: float32[1, 8, 16, 16]\n  const %half: float32[] = {0.5}\n  const %low: float32[] = {0.1}\n"
                "  %t = Mul(%s, %half)\n  %q = ReduceMax(%t) {keepdims = 0}\n  %d = Greater(%q, %low)\n"
                "  output %d: bool[]\n  output %t: float32[1, 8, 16, 16]\n}}\n"
                "output %y: float32[1, 8, 16, 16]\n",
         2, "Loop"},
    };
}

Model model_of(const std::string& text) {
    Model model = model_from_text(text);
    add_weights(model, "w", {8, 3, 3, 3}, 3);
    if (text.find("%v") != std::string::npos) add_weights(model, "v", {4, 8, 3, 3}, 5);
    EXPECT_GE(drop_initializer_inputs(model), 1U);
    return model;
}

std::vector<HostTensor> inputs_of(const CompiledModel& model) {
    std::vector<HostTensor> inputs;
    for (const IoInfo& info : model.inputs()) {
        HostTensor input(info.name, info.type, info.range.opt);
        if (info.type == DataType::float32) {
            const auto numbers = noise(input.as<float>().size(), 7);
            std::copy(numbers.begin(), numbers.end(), input.as<float>().begin());
            for (float& number : input.as<float>())
                number *= 0.1F;
        } else {
            for (std::size_t i = 0; i < input.bytes.size(); ++i)
                input.bytes[i] = static_cast<std::byte>(i * 37 % 251);
        }
        inputs.push_back(std::move(input));
    }
    return inputs;
}

/// Outputs by name, as floats with their shape.
using Answers = std::map<std::string, std::pair<Shape, std::vector<float>>>;
Answers answers_of(BackendSession& session, const CompiledModel& model) {
    auto inputs = inputs_of(model);
    for (std::size_t i = 0; i < inputs.size(); ++i)
        must(session.set_input(i, inputs[i].view()));
    must(session.run());
    Answers answers;
    for (std::size_t i = 0; i < model.outputs().size(); ++i) {
        const TensorView view = must(session.output(i));
        const auto numbers = view.as<float>();
        answers[model.outputs()[i].name] = {view.shape, {numbers.begin(), numbers.end()}};
    }
    return answers;
}

void expect_near(const Answers& found, const Answers& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, answer] : expected) {
        ASSERT_TRUE(found.contains(name)) << name;
        EXPECT_EQ(found.at(name).first, answer.first) << name;
        ASSERT_EQ(found.at(name).second.size(), answer.second.size()) << name;
        float largest = 1;
        for (const float number : answer.second)
            largest = std::max(largest, std::abs(number));
        for (std::size_t i = 0; i < answer.second.size(); ++i)
            ASSERT_NEAR(found.at(name).second[i], answer.second[i], 1e-5 * largest) << name << " at " << i;
    }
}

class FallbackTest : public testing::TestWithParam<FallbackCase> {};

TEST_P(FallbackTest, PartsGiveWhatTheWholeGives) {
    const Model model = model_of(GetParam().text);
    const auto host = make_openvino_backend();
    const auto backend = make_fallback_backend(std::make_unique<PlanBackend>(), *host);
    EXPECT_FALSE(backend->compile(model, {})) << "without the option nothing runs on the CPU";
    CompileOptions options;
    options.allow_fallback = true;
    const auto split = must(backend->compile(model, options));
    const auto report = must(split->report());
    ASSERT_FALSE(report.fallbacks.empty());
    EXPECT_THAT(report.fallbacks, Contains(HasSubstr("runs on the CPU: " + GetParam().on_cpu)));
    EXPECT_THAT(report.fallbacks.back(), HasSubstr("are copied between GPU and CPU in each run"));
    const auto whole = must(host->compile(model, {}));
    const auto session = must(split->make_session());
    const auto reference = must(whole->make_session());
    const Answers expected = answers_of(*reference, *whole);
    expect_near(answers_of(*session, *split), expected);
    expect_near(answers_of(*session, *split), expected);
    // The engine file holds all parts.
    const std::string bytes = must(split->save()).flat();
    const auto loaded = must(backend->load(std::as_bytes(std::span(bytes)), nullptr, {}));
    expect_near(answers_of(*must(loaded->make_session()), *loaded), expected);
    const auto cut = must(cuda::cut(model, {split->inputs().front().range.opt}, Precision::float32));
    EXPECT_EQ(cut.parts.size(), GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(Models, FallbackTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Fallback, WhatIsRefusedSaysWhy) {
    const auto host = make_openvino_backend();
    const auto backend = make_fallback_backend(std::make_unique<PlanBackend>(), *host);
    CompileOptions options;
    options.allow_fallback = true;
    const Model nothing = model_from_text("opset 18\ninput %x: float32[1, 4, 3, 3]\n" + diagonals("x", "y") +
                                          "output %y: float32[1, 4, 3, 3]\n");
    const auto none = backend->compile(nothing, options);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::unsupported);
    EXPECT_THAT(none.error().describe(), HasSubstr("no product or convolution is left for the GPU"));

    const Model model = model_of(cases()[2].text);
    options.shapes["x"] = {{1, 3, 16, 16}, {1, 3, 16, 16}, {2, 3, 16, 16}};
    const auto several = backend->compile(model, options);
    ASSERT_FALSE(several);
    EXPECT_THAT(several.error().describe(), HasSubstr("takes one shape"));
}

TEST(Fallback, DamagedFormsAreRefused) {
    const auto host = make_openvino_backend();
    const auto backend = make_fallback_backend(std::make_unique<PlanBackend>(), *host);
    CompileOptions options;
    options.allow_fallback = true;
    const auto split = must(backend->compile(model_of(cases()[2].text), options));
    const std::string bytes = must(split->save()).flat();
    for (std::size_t size = 8; size < bytes.size(); size += bytes.size() / 40 + 1) {
        const auto loaded = backend->load(std::as_bytes(std::span(bytes).first(size)), nullptr, {});
        EXPECT_FALSE(loaded) << "cut off at " << size;
    }
    for (std::size_t at = 0; at < bytes.size(); at += bytes.size() / 60 + 1) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
        static_cast<void>(backend->load(std::as_bytes(std::span(damaged)), nullptr, {})); // no crash
    }
}

} // namespace
} // namespace lathe::test
