#include "conformance/canonical.hpp"

#include <algorithm>
#include <cstring>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/message_differencer.h>

namespace lathe::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <class To, class Field>
void take(Field* field, std::string& raw) {
    for (const auto value : *field) {
        const To narrow = static_cast<To>(value);
        raw.append(reinterpret_cast<const char*>(&narrow), sizeof(To));
    }
    field->Clear();
}

/// Written apart from the importer on purpose: sharing its code would hide its mistakes.
void canonicalize_tensor(onnx::TensorProto& tensor) {
    if (tensor.has_raw_data() || tensor.data_type() == onnx::TensorProto::STRING) return;
    std::string raw;
    switch (tensor.data_type()) {
        case onnx::TensorProto::INT32: take<std::int32_t>(tensor.mutable_int32_data(), raw); break;
        case onnx::TensorProto::UINT16:
        case onnx::TensorProto::INT16:
        case onnx::TensorProto::FLOAT16:
        case onnx::TensorProto::BFLOAT16: take<std::uint16_t>(tensor.mutable_int32_data(), raw); break;
        case onnx::TensorProto::FLOAT6E2M3:
        case onnx::TensorProto::FLOAT6E3M2: {
            std::string bits;
            for (const std::int32_t code : tensor.int32_data()) {
                for (int bit = 0; bit < 6; ++bit)
                    bits += static_cast<char>((code >> bit) & 1);
            }
            raw.assign((bits.size() + 7) / 8, '\0');
            for (std::size_t i = 0; i < bits.size(); ++i)
                raw[i / 8] = static_cast<char>(raw[i / 8] | bits[i] << (i % 8));
            tensor.clear_int32_data();
            break;
        }
        default: take<std::uint8_t>(tensor.mutable_int32_data(), raw); break;
    }
    take<float>(tensor.mutable_float_data(), raw);
    take<double>(tensor.mutable_double_data(), raw);
    take<std::int64_t>(tensor.mutable_int64_data(), raw);
    if (tensor.data_type() == onnx::TensorProto::UINT32) take<std::uint32_t>(tensor.mutable_uint64_data(), raw);
    take<std::uint64_t>(tensor.mutable_uint64_data(), raw);
    tensor.set_raw_data(raw);
}

bool is_default(const Message& message, const FieldDescriptor* field) {
    const auto* reflection = message.GetReflection();
    switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_STRING: return reflection->GetString(message, field).empty();
        case FieldDescriptor::CPPTYPE_INT32: return reflection->GetInt32(message, field) == 0;
        case FieldDescriptor::CPPTYPE_INT64: return reflection->GetInt64(message, field) == 0;
        case FieldDescriptor::CPPTYPE_FLOAT: {
            const float value = reflection->GetFloat(message, field);
            std::uint32_t bits = 0;
            std::memcpy(&bits, &value, sizeof bits);
            return bits == 0;
        }
        case FieldDescriptor::CPPTYPE_ENUM: return reflection->GetEnumValue(message, field) == 0;
        default: return false;
    }
}

void clear_defaults(Message& message) {
    const auto* reflection = message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
        // A dimension of 0 is a size; a dimension without value is not known.
        const bool in_oneof = field->containing_oneof() != nullptr && field->name() != "dim_param";
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
            if (field->is_repeated()) {
                for (int i = 0; i < reflection->FieldSize(message, field); ++i)
                    clear_defaults(*reflection->MutableRepeatedMessage(&message, field, i));
            } else {
                clear_defaults(*reflection->MutableMessage(&message, field));
            }
        } else if (!field->is_repeated() && !in_oneof && is_default(message, field)) {
            reflection->ClearField(&message, field);
        }
    }
}

template <class Field>
void sort_by_name(Field* field) {
    std::sort(field->pointer_begin(), field->pointer_end(),
              [](const auto* a, const auto* b) { return a->name() < b->name(); });
}

void canonicalize_graph(onnx::GraphProto& graph, bool reorder);

void canonicalize_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes, bool reorder) {
    for (auto& node : *nodes) {
        if (node.domain() == "ai.onnx") node.clear_domain();
        for (auto& attribute : *node.mutable_attribute()) {
            if (attribute.has_t()) canonicalize_tensor(*attribute.mutable_t());
            for (auto& tensor : *attribute.mutable_tensors())
                canonicalize_tensor(tensor);
            if (attribute.has_g()) canonicalize_graph(*attribute.mutable_g(), reorder);
            for (auto& graph : *attribute.mutable_graphs())
                canonicalize_graph(graph, reorder);
        }
    }
}

void canonicalize_graph(onnx::GraphProto& graph, bool reorder) {
    for (auto& tensor : *graph.mutable_initializer())
        canonicalize_tensor(tensor);
    if (reorder) {
        sort_by_name(graph.mutable_initializer());
        sort_by_name(graph.mutable_value_info());
    }
    canonicalize_nodes(graph.mutable_node(), reorder);
}

} // namespace

void canonicalize(onnx::ModelProto& model) {
    for (auto& import : *model.mutable_opset_import()) {
        if (import.domain() == "ai.onnx") import.clear_domain();
    }
    std::sort(model.mutable_opset_import()->pointer_begin(), model.mutable_opset_import()->pointer_end(),
              [](const auto* a, const auto* b) { return a->domain() < b->domain(); });
    canonicalize_graph(*model.mutable_graph(), true);
    clear_defaults(model);
}

std::string canonical_bytes(const onnx::ModelProto& model) {
    std::string bytes;
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    model.SerializeToCodedStream(&coded);
    coded.Trim();
    return bytes;
}

std::string first_difference(const onnx::ModelProto& a, const onnx::ModelProto& b) {
    if (canonical_bytes(a) == canonical_bytes(b)) return "";
    std::string report;
    google::protobuf::util::MessageDifferencer differencer;
    differencer.ReportDifferencesToString(&report);
    if (differencer.Compare(a, b)) return "same fields, other bytes (NaN payload or unknown fields)";
    return report.substr(0, 500);
}

} // namespace lathe::test
