#include "onnx/op_types.hpp"

#include <algorithm>
#include <limits>

#include <onnx/defs/schema.h>

namespace lathe {

namespace {

/// ONNX's spelling of a tensor of this type in schemas; "" for types that are never asked about.
const char* schema_name(DataType type) {
    switch (type) {
        case DataType::float32: return "tensor(float)";
        case DataType::float16: return "tensor(float16)";
        case DataType::bfloat16: return "tensor(bfloat16)";
        case DataType::float64: return "tensor(double)";
        case DataType::int8: return "tensor(int8)";
        case DataType::uint8: return "tensor(uint8)";
        case DataType::int16: return "tensor(int16)";
        case DataType::uint16: return "tensor(uint16)";
        case DataType::int32: return "tensor(int32)";
        case DataType::uint32: return "tensor(uint32)";
        case DataType::int64: return "tensor(int64)";
        case DataType::uint64: return "tensor(uint64)";
        default: return "";
    }
}

const onnx::OpSchema* schema_of(const Node& node, std::int64_t opset) {
    if (!node.domain.empty() || opset <= 0 || opset > std::numeric_limits<int>::max()) return nullptr;
    return onnx::OpSchemaRegistry::Schema(node.op_type, static_cast<int>(opset), "");
}

std::optional<FormalType> formal(const std::vector<onnx::OpSchema::FormalParameter>& parameters, std::size_t position,
                                 DataType type) {
    if (parameters.empty()) return std::nullopt;
    const bool variadic = parameters.back().GetOption() == onnx::OpSchema::Variadic;
    if (position >= parameters.size() && !variadic) return std::nullopt;
    const auto& parameter = parameters[std::min(position, parameters.size() - 1)];
    const std::string wanted = schema_name(type);
    FormalType found;
    found.parameter = parameter.GetTypeStr();
    found.allowed = std::ranges::any_of(parameter.GetTypes(), [&](const auto* each) { return *each == wanted; });
    return found;
}

} // namespace

std::optional<FormalType> formal_input(const Node& node, std::int64_t opset, std::size_t position, DataType type) {
    const onnx::OpSchema* schema = schema_of(node, opset);
    return schema == nullptr ? std::nullopt : formal(schema->inputs(), position, type);
}

std::optional<FormalType> formal_output(const Node& node, std::int64_t opset, std::size_t position, DataType type) {
    const onnx::OpSchema* schema = schema_of(node, opset);
    return schema == nullptr ? std::nullopt : formal(schema->outputs(), position, type);
}

std::optional<InputCounts> input_counts(const Node& node, std::int64_t opset) {
    const onnx::OpSchema* schema = schema_of(node, opset);
    if (schema == nullptr) return std::nullopt;
    return InputCounts{static_cast<std::size_t>(schema->min_input()), static_cast<std::size_t>(schema->max_input())};
}

} // namespace lathe
