#include "backends/api/typed_graph.hpp"

#include <optional>

#include "onnx/onnx.hpp"
#include "passes/passes.hpp"
#include "passes/write_casts.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

std::optional<DataType> low_type(Precision precision) {
    switch (precision) {
        case Precision::bfloat16: return DataType::bfloat16;
        case Precision::float16:
        case Precision::int8: return DataType::float16;
        default: return std::nullopt;
    }
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
    // ONNX defines Conv and pooling in bfloat16 from 22 on; TensorRT's parser reads them at any opset.
    const std::int64_t least = quantized ? typed_quantization_opset : *low == DataType::bfloat16 ? bfloat16_opset : 0;
    if (typed.model.opset() < least) {
        if (auto converted = convert_opset(typed.model, least); !converted) {
            Error error = std::move(converted).error();
            error.message = (quantized ? "int8 beside " : "") + to_string(*low) + " needs opset " +
                            std::to_string(least) + ": " + error.message;
            error.hint = "export the model with that opset, or take --precision " +
                         std::string(quantized ? "fp32: int8 beside float32" : "fp16");
            return error;
        }
    }
    PassContext context;
    context.opset = typed.model.opset();
    const Pass fold{"fold-batch-norm", "", passes::fold_batch_norm};
    LATHE_CHECK(apply_pass(fold, typed.model.graph, context));
    LATHE_CHECK(infer_shapes(typed.model));
    LATHE_TRY(typed.report, narrow_floats(typed.model, *low));
    for (const auto& [op, count] : typed.report.kept_ops)
        typed.notes.push_back(std::to_string(count) + " " + op + " in float32");
    for (const auto& node : typed.report.kept_for_range)
        typed.notes.push_back("in float32 for its range: " + node);
    for (const auto& constant : typed.report.clamped)
        typed.notes.push_back(describe_clamped(constant, *low));
    return typed;
}

} // namespace lathe
