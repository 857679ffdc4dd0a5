#include "backends/api/typed_graph.hpp"

#include <algorithm>
#include <optional>

#include "onnx/onnx.hpp"
#include "passes/narrow_floats.hpp"
#include "passes/passes.hpp"

namespace lathe {

namespace {

/// The first whose QuantizeLinear and DequantizeLinear take float32 scales beside other floats.
constexpr std::int64_t typed_quantization_opset = 23;

std::optional<DataType> low_type(Precision precision) {
    switch (precision) {
        case Precision::bfloat16: return DataType::bfloat16;
        case Precision::float16:
        case Precision::int8: return DataType::float16;
        default: return std::nullopt;
    }
}

bool has_quantization(const Graph& graph) {
    return std::ranges::any_of(
        graph.nodes, [](const auto& node) { return node->is("QuantizeLinear") || node->is("DequantizeLinear"); });
}

} // namespace

Result<TypedModel> write_precision(const Model& model, Precision precision) {
    TypedModel typed;
    typed.model = model;
    const bool quantized = has_quantization(model.graph);
    if (precision == Precision::int8 && !quantized) {
        return Error{ErrorCode::invalid_argument, "int8 was asked, but the model has no QuantizeLinear",
                     "--precision int8", "quantise it first: lathe quantize --target tensorrt"};
    }
    const auto low = low_type(precision);
    if (!low) return typed;
    if (quantized && typed.model.opset() < typed_quantization_opset) {
        if (auto converted = convert_opset(typed.model, typed_quantization_opset); !converted) {
            Error error = std::move(converted).error();
            error.message = "int8 beside " + to_string(*low) + " needs opset 23: " + error.message;
            error.hint = "export the model with opset 23, or build with --precision fp32: int8 beside float32";
            return error;
        }
    }
    PassContext context;
    context.opset = typed.model.opset();
    const Pass fold{"fold-batch-norm", "", passes::fold_batch_norm};
    LATHE_CHECK(apply_pass(fold, typed.model.graph, context));
    LATHE_CHECK(infer_shapes(typed.model));
    LATHE_TRY(const NarrowReport report, narrow_floats(typed.model, *low));
    for (const auto& [op, count] : report.kept_ops)
        typed.notes.push_back(std::to_string(count) + " " + op + " in float32");
    for (const auto& node : report.kept_for_range)
        typed.notes.push_back("in float32 for its range: " + node);
    return typed;
}

} // namespace lathe
