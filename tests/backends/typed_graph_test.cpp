// A precision written into the graph: what computes in it, what stays float32, and that the result is valid ONNX with
// nearly the same outputs.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/api/typed_graph.hpp"
#include "backends/models.hpp"
#include "onnx/onnx.hpp"
#include "passes/narrow_floats.hpp"
#include "passes/verification.hpp"

namespace lathe {
namespace {

using test::model_from_text;

Model typed(const Model& model, Precision precision) {
    auto result = write_precision(model, precision);
    EXPECT_TRUE(result) << result.error().describe();
    return result ? std::move(result->model) : Model{};
}

/// Type of the first output of the only node of this type, with all types inferred anew by ONNX, strictly.
DataType type_behind(Model model, const std::string& op) {
    const auto inferred = infer_shapes(model, {.discard_existing = true, .strict = true});
    EXPECT_TRUE(inferred) << inferred.error().describe();
    const auto checked = check_onnx(model, {.full = true});
    EXPECT_TRUE(checked) << checked.error().describe();
    for (const auto& node : model.graph.nodes) {
        if (node->op_type == op) return model.graph.info(node->output(0)).value_or(ValueInfo{}).type;
    }
    ADD_FAILURE() << "no " << op;
    return DataType::undefined;
}

constexpr const char* classifier =
    "opset 18\nir 8\ninput %x: float32[N, 2, 4, 4]\n"
    "const %w: float32[2, 2, 1, 1] = {0.5, -0.25, 0.125, 1}\nconst %b: float32[2] = {0.1, -0.2}\n"
    "const %fc: float32[2, 3] = {1, 2, 3, -1, -2, -3}\n"
    "%c = Conv(%x, %w, %b)\n%r = Relu(%c)\n%s = Add(%r, %r)\n%g = GlobalAveragePool(%s)\n%f = Flatten(%g)\n"
    "%m = MatMul(%f, %fc)\n%y = Softmax(%m)\noutput %y: float32[N, 3]\n";

TEST(TypedGraph, ProductsAndWhatFollowsThemAreLowSoftmaxIsNot) {
    for (const auto& [precision, low] : std::map<Precision, DataType>{{Precision::float16, DataType::float16},
                                                                      {Precision::bfloat16, DataType::bfloat16}}) {
        const Model model = typed(model_from_text(classifier), precision);
        for (const char* op : {"Conv", "Relu", "Add", "GlobalAveragePool", "Flatten", "MatMul"})
            EXPECT_EQ(type_behind(model, op), low) << op;
        EXPECT_EQ(type_behind(model, "Softmax"), DataType::float32);
        EXPECT_EQ(model.graph.inputs.at(0).type, DataType::float32);
        EXPECT_EQ(model.graph.outputs.at(0).type, DataType::float32);
        // Weights are stored so, and only so.
        for (const auto& [name, tensor] : model.graph.initializers)
            EXPECT_EQ(tensor.type(), low) << name;
        const auto casts = std::ranges::count_if(model.graph.nodes, [](const auto& node) { return node->is("Cast"); });
        EXPECT_EQ(casts, 2);
    }
}

TEST(TypedGraph, Fp32IsTheGraphAsItIs) {
    const Model before = model_from_text(classifier);
    EXPECT_EQ(print(typed(before, Precision::float32)), print(before));
}

TEST(TypedGraph, KeepsNearlyTheOutputs) {
    const auto backend = backend_for_device("cpu");
    if (!backend) GTEST_SKIP() << "SKIPPED: " << backend.error().describe();
    const Model before = model_from_text(classifier);
    const auto inputs = random_inputs(before, 5, 0);
    ASSERT_TRUE(inputs) << inputs.error().describe();
    const auto run = [&](const Model& model) {
        CompileOptions options;
        options.shapes["x"] = {inputs->at(0).shape, inputs->at(0).shape, inputs->at(0).shape};
        const auto compiled = (*backend)->compile(model, options);
        EXPECT_TRUE(compiled) << compiled.error().describe();
        const auto session = (*compiled)->make_session();
        EXPECT_TRUE(session) << session.error().describe();
        HostTensor input = inputs->at(0);
        EXPECT_TRUE((*session)->set_input(0, input.view()));
        EXPECT_TRUE((*session)->run());
        const auto view = (*session)->output(0);
        EXPECT_TRUE(view) << view.error().describe();
        const auto values = view->as<float>();
        return std::vector<float>(values.begin(), values.end());
    };
    const auto expected = run(before), actual = run(typed(before, Precision::float16));
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], 2e-3) << i;
}

// LayerNorm written out: its mean, square, root and what follows them stay float32 until the next product.
TEST(TypedGraph, NormalisationStaysHighUntilTheNextProduct) {
    const Model model =
        typed(model_from_text("opset 18\nir 8\ninput %x: float32[N, 4]\n"
                              "const %a: float32[4, 4] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}\n"
                              "const %gain: float32[4] = {1, 2, 3, 4}\nconst %eps: float32[] = {1e-12}\n"
                              "%h = MatMul(%x, %a)\n%mean = ReduceMean(%h) {keepdims = 1}\n"
                              "%d = Sub(%h, %mean)\n%v = Mul(%d, %d)\n%e = Add(%v, %eps)\n%root = Sqrt(%e)\n"
                              "%n = Div(%d, %root)\n%t = Reshape(%n, %shape)\n%y = MatMul(%t, %a)\n"
                              "const %shape: int64[2] = {-1, 4}\noutput %y: float32[M, 4]\n"),
              Precision::float16);
    for (const char* op : {"ReduceMean", "Sub", "Mul", "Add", "Sqrt", "Div", "Reshape"})
        EXPECT_EQ(type_behind(model, op), DataType::float32) << op;
    EXPECT_EQ(type_behind(model, "MatMul"), DataType::float16);
}

TEST(TypedGraph, ConstantsThatDoNotFitFp16KeepTheirNode) {
    const std::string text = "opset 18\nir 8\ninput %x: float32[N, 4]\nconst %mask: float32[] = {-3.4e38}\n"
                             "const %eps: float32[] = {1e-9}\nconst %fine: float32[] = {0.5}\n"
                             "%m = Mul(%x, %mask)\n%a = Max(%x, %eps)\n%f = Min(%x, %fine)\n%s = Sum(%m, %a)\n"
                             "output %s: float32[N, 4]\noutput %f: float32[N, 4]\n";
    Model model = model_from_text(text);
    ASSERT_TRUE(infer_shapes(model));
    Model bf16 = model;
    const auto report = narrow_floats(model, DataType::float16);
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_EQ(report->kept_for_range.size(), 2U);
    EXPECT_EQ(type_behind(model, "Mul"), DataType::float32);
    EXPECT_EQ(type_behind(model, "Max"), DataType::float32);
    EXPECT_EQ(type_behind(model, "Min"), DataType::float16);
    // bfloat16 has float32's range.
    const auto wide = narrow_floats(bf16, DataType::bfloat16);
    ASSERT_TRUE(wide) << wide.error().describe();
    EXPECT_TRUE(wide->kept_for_range.empty());
    EXPECT_EQ(type_behind(bf16, "Mul"), DataType::bfloat16);
}

// torch.onnx's dynamo exporter writes causal masks as constants of -3.4e38, which 16 bits do not hold.
TEST(TypedGraph, MasksOfScoresAreClamped) {
    const Model model =
        test::model_from_text("opset 18\nir 8\ninput %x: float32[2, 2]\nconst %w: float32[2, 2] = {1, 2, 3, 4}\n"
                              "const %mask: float32[2, 2] = {0, -3.4028235e38, -3.4028235e38, -3.4028235e38}\n"
                              "%s = MatMul(%x, %w)\n%m = Add(%s, %mask)\n%y = Softmax(%m)\n"
                              "output %y: float32[2, 2]\n");
    for (const auto& [precision, low] : std::map<Precision, DataType>{{Precision::float16, DataType::float16},
                                                                      {Precision::bfloat16, DataType::bfloat16}}) {
        const auto typed = write_precision(model, precision);
        ASSERT_TRUE(typed) << typed.error().describe();
        EXPECT_EQ(type_behind(typed->model, "Add"), low);
        EXPECT_TRUE(
            std::ranges::any_of(typed->notes, [](const auto& note) { return note.starts_with("mask is a mask"); }));
        for (const auto& [name, tensor] : typed->model.graph.initializers) {
            if (!name.starts_with("mask")) continue;
            for (const float value : tensor.to_floats())
                EXPECT_TRUE(std::isfinite(value)) << name;
        }
    }
}

constexpr const char* quantised =
    "opset 18\nir 8\ninput %x: float32[N, 2, 4, 4]\nconst %s: float32[] = {0.02}\nconst %z: int8[] = {0}\n"
    "const %wq: int8[2, 2, 1, 1] = {127, -64, 32, 5}\nconst %ws: float32[2] = {1e-6, 0.02}\nconst %wz: int8[2] = {0, "
    "0}\n"
    "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n"
    "%w = DequantizeLinear(%wq, %ws, %wz) {axis = 0}\n%c = Conv(%d, %w)\n%y = Relu(%c)\noutput %y: float32[N, 2, 4, "
    "4]\n";

TEST(TypedGraph, QuantisedGraphsKeepInt8AndFloatScales) {
    const Model model = typed(model_from_text(quantised), Precision::int8);
    EXPECT_EQ(model.opset(), 23);
    EXPECT_EQ(type_behind(model, "QuantizeLinear"), DataType::int8);
    EXPECT_EQ(type_behind(model, "DequantizeLinear"), DataType::float16);
    EXPECT_EQ(type_behind(model, "Conv"), DataType::float16);
    // 1e-6 is a subnormal number in FP16: scales are not rounded.
    ASSERT_NE(model.graph.constant("ws"), nullptr);
    EXPECT_EQ(model.graph.constant("ws")->to_floats(), (std::vector<float>{1e-6F, 0.02F}));
    EXPECT_EQ(model.graph.constant("wq")->type(), DataType::int8);
}

TEST(TypedGraph, Int8NeedsQuantisation) {
    const auto result = write_precision(model_from_text(classifier), Precision::int8);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(result.error().hint.find("lathe quantize --target tensorrt"), std::string::npos);
}

// A value that is read low and high, and is an output as well: one Cast each, the output keeps its name.
TEST(TypedGraph, OutputsInTheMiddleKeepNameAndType) {
    const Model model =
        typed(model_from_text("opset 18\nir 8\ninput %x: float32[N, 2]\nconst %a: float32[2, 2] = {1, 2, 3, 4}\n"
                              "%m = MatMul(%x, %a)\n%e = Exp(%m)\n%l = Log(%m)\n%n = MatMul(%m, %a)\n"
                              "output %m: float32[N, 2]\noutput %e: float32[N, 2]\noutput %l: float32[N, 2]\n"
                              "output %n: float32[N, 2]\n"),
              Precision::float16);
    EXPECT_EQ(type_behind(model, "MatMul"), DataType::float16);
    EXPECT_EQ(type_behind(model, "Exp"), DataType::float32);
    ASSERT_NE(model.graph.find_output("m"), nullptr);
    const auto casts = std::ranges::count_if(model.graph.nodes, [](const auto& node) { return node->is("Cast"); });
    EXPECT_EQ(casts, 3); // of x, m and n
}

TEST(TypedGraph, BatchNormalizationIsFoldedFirst) {
    const Model model =
        typed(model_from_text("opset 18\nir 8\ninput %x: float32[N, 1, 2, 2]\nconst %w: float32[1, 1, 1, 1] = {2}\n"
                              "const %g: float32[1] = {1.5}\nconst %b: float32[1] = {0.5}\n"
                              "const %mean: float32[1] = {0.1}\nconst %var: float32[1] = {0.9}\n"
                              "%c = Conv(%x, %w)\n%n = BatchNormalization(%c, %g, %b, %mean, %var)\n"
                              "%y = Relu(%n)\noutput %y: float32[N, 1, 2, 2]\n"),
              Precision::float16);
    EXPECT_EQ(type_behind(model, "Relu"), DataType::float16);
    for (const auto& node : model.graph.nodes)
        EXPECT_FALSE(node->is("BatchNormalization"));
}

TEST(TypedGraph, AnEinsumHasNoFormInBfloat16) {
    const Model model =
        model_from_text("opset 22\ninput %x: float32[2, 3]\nconst %w: float32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                        "%a = Relu(%x)\n%y = Einsum(%a, %w) {equation = \"ik,kj->ij\"}\n"
                        "output %y: float32[2, 2]\n");
    for (const Precision precision : {Precision::float16, Precision::bfloat16}) {
        const auto typed = write_precision(model, precision);
        ASSERT_TRUE(typed) << typed.error().describe();
        EXPECT_TRUE(check_onnx(typed->model, {true})) << to_string(precision);
    }
}

} // namespace
} // namespace lathe
