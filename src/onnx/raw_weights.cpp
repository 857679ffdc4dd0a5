// Protobuf counts in int and copies every byte, so the weights of a large file are taken out before it reads the rest.
// A walk over the wire format (protobuf's encoding guide), three messages deep: model, graph, initializer.

#include <optional>

#include "onnx/proto.hpp"

namespace lathe::proto {
namespace {

using Bytes = std::span<const std::byte>;

struct Field {
    std::uint32_t number = 0;
    std::uint32_t wire_type = 0;
    Bytes all;     ///< key and content
    Bytes content; ///< of a length-delimited field
};

std::optional<std::uint64_t> take_varint(Bytes& bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 10 && i < bytes.size(); ++i) {
        const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
        value |= (byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            bytes = bytes.subspan(i + 1);
            return value;
        }
    }
    return std::nullopt;
}

std::optional<Field> take_field(Bytes& bytes) {
    Field field;
    const Bytes begin = bytes;
    const auto key = take_varint(bytes);
    if (!key || *key >> 3 == 0 || *key >> 32 != 0) return std::nullopt;
    field.number = static_cast<std::uint32_t>(*key >> 3);
    field.wire_type = static_cast<std::uint32_t>(*key & 7);
    std::uint64_t length = 0;
    switch (field.wire_type) {
        case 0:
            if (!take_varint(bytes)) return std::nullopt;
            break;
        case 1: length = 8; break;
        case 5: length = 4; break;
        case 2: {
            const auto told = take_varint(bytes);
            if (!told) return std::nullopt;
            length = *told;
            break;
        }
        default: return std::nullopt; // groups: no message of ONNX has them
    }
    if (length > bytes.size()) return std::nullopt;
    field.content = bytes.first(length);
    bytes = bytes.subspan(length);
    field.all = begin.first(begin.size() - bytes.size());
    return field;
}

/// All fields of a message, or nothing where the bytes are none.
std::optional<std::vector<Field>> fields_of(Bytes bytes) {
    std::vector<Field> fields;
    while (!bytes.empty()) {
        const auto field = take_field(bytes);
        if (!field) return std::nullopt;
        fields.push_back(*field);
    }
    return fields;
}

void append(std::string& text, Bytes bytes) { text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

/// Appends the initializer without its raw data, which it returns; empty where it stays inside.
std::optional<Bytes> strip_initializer(const Field& initializer, std::size_t least, std::string& out) {
    const auto fields = fields_of(initializer.content);
    if (!fields) return std::nullopt;
    Bytes raw;
    bool plain = true;
    for (const Field& field : *fields) {
        if (field.number == onnx::TensorProto::kDataLocationFieldNumber) plain = false;
        if (field.number != onnx::TensorProto::kRawDataFieldNumber) continue;
        plain = plain && field.wire_type == 2 && raw.empty();
        raw = field.content;
    }
    if (!plain || raw.size() < least) {
        out += field_start(onnx::GraphProto::kInitializerFieldNumber, initializer.content.size());
        append(out, initializer.content);
        return Bytes{};
    }
    std::string rest;
    for (const Field& field : *fields) {
        if (field.number != onnx::TensorProto::kRawDataFieldNumber) append(rest, field.all);
    }
    out += field_start(onnx::GraphProto::kInitializerFieldNumber, rest.size()) + rest;
    return raw;
}

} // namespace

std::string field_start(int number, std::size_t length, std::size_t width) {
    std::string text;
    const auto varint = [&](std::uint64_t value, std::size_t least) {
        std::size_t written = 1;
        for (; value >= 0x80 || written < least; value >>= 7, ++written)
            text += static_cast<char>(value | 0x80);
        text += static_cast<char>(value);
    };
    varint(static_cast<std::uint64_t>(number) << 3 | 2, 1);
    varint(length, width);
    return text;
}

std::optional<WithoutWeights> without_weights(Bytes bytes, std::size_t least) {
    const auto model = fields_of(bytes);
    if (!model) return std::nullopt;
    WithoutWeights result;
    for (const Field& part : *model) {
        if (part.number != onnx::ModelProto::kGraphFieldNumber) {
            append(result.model, part.all);
            continue;
        }
        const auto graph = part.wire_type == 2 ? fields_of(part.content) : std::nullopt;
        if (!graph) return std::nullopt;
        std::string rest;
        for (const Field& field : *graph) {
            if (field.number != onnx::GraphProto::kInitializerFieldNumber || field.wire_type != 2) {
                append(rest, field.all);
                continue;
            }
            const auto raw = strip_initializer(field, least, rest);
            if (!raw) return std::nullopt;
            result.weights.push_back(*raw);
        }
        result.model += field_start(onnx::ModelProto::kGraphFieldNumber, rest.size()) + rest;
    }
    return result;
}

} // namespace lathe::proto
