#pragma once

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "onnx/onnx.hpp"

namespace lathe::test {

/// A ModelProto from ONNX's text syntax. IR version and opset are put in front unless the text begins with "<".
inline onnx::ModelProto proto_from(const std::string& text) {
    onnx::ModelProto model;
    const std::string head = "<ir_version: 9, opset_import: [\"\" : 18]>\n";
    const auto status = onnx::OnnxParser::Parse(model, (text.front() == '<' ? text : head + text).c_str());
    if (!status.IsOK()) throw std::invalid_argument(status.ErrorMessage());
    return model;
}

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline Result<Model> parse(const onnx::ModelProto& proto) { return parse_onnx(bytes_of(proto.SerializeAsString())); }

/// Not verified: tests add the initializers afterwards.
inline Model model_from(const std::string& text) {
    auto model = parse_onnx(bytes_of(proto_from(text).SerializeAsString()), {}, {false, 64});
    if (!model) throw std::invalid_argument(model.error().describe());
    return std::move(*model);
}

inline Tensor ramp(const std::string& name, Shape shape) {
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i) * 0.25F;
    return Tensor::of_floats(name, std::move(shape), values);
}

inline void add_initializer(Model& model, Tensor tensor) {
    const std::string name = tensor.name;
    model.graph.initializers.insert_or_assign(name, std::move(tensor));
}

} // namespace lathe::test
