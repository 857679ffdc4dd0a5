#include "backends/tensorrt/precision.hpp"

#include <algorithm>
#include <optional>

#include "onnx/onnx.hpp"
#include "passes/autocast.hpp"

namespace lathe::tensorrt {

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

Result<PreparedModel> prepare_precision(const Model& model, const CompileOptions& options) {
    PreparedModel prepared;
    prepared.model = model;
    const bool quantized = has_quantization(model.graph);
    if (options.precision == Precision::int8 && !quantized) {
        return Error{ErrorCode::invalid_argument, "int8 was asked, but the model has no QuantizeLinear",
                     "--precision int8", "quantise it first: lathe quantize --target tensorrt"};
    }
    const auto low = low_type(options.precision);
    if (!low) return prepared;
    if (quantized && prepared.model.opset() < typed_quantization_opset) {
        if (auto converted = convert_opset(prepared.model, typed_quantization_opset); !converted) {
            Error error = std::move(converted).error();
            error.message = "int8 beside " + to_string(*low) + " needs opset 23: " + error.message;
            error.hint = "export the model with opset 23, or build with --precision fp32: int8 beside float32";
            return error;
        }
    }
    LATHE_CHECK(infer_shapes(prepared.model));
    LATHE_TRY(const AutocastReport report, autocast(prepared.model, *low));
    for (const auto& [op, count] : report.kept_ops)
        prepared.notes.push_back(std::to_string(count) + " " + op + " in float32");
    for (const auto& node : report.kept_for_range)
        prepared.notes.push_back("in float32 for its range: " + node);
    return prepared;
}

} // namespace lathe::tensorrt
