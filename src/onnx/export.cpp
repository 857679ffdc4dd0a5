// Graphs to protobuf.

#include <bit>
#include <type_traits>

#include "onnx/proto.hpp"

static_assert(std::endian::native == std::endian::little, "ONNX raw data is little-endian");

namespace lathe::proto {
namespace {

using Entries = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

void export_metadata(const Metadata& metadata, Entries& entries) {
    for (const auto& [key, value] : metadata) {
        auto* entry = entries.Add();
        entry->set_key(key);
        entry->set_value(value);
    }
}

Result<void> restore(google::protobuf::MessageLite& message, const std::string& bytes, const char* what) {
    if (parse(message, bytes)) return {};
    return Error{ErrorCode::internal, std::string("kept bytes of a ") + what + " cannot be read back", "",
                 "please report this with the model"};
}

void export_dims(const std::vector<Dimension>& dims, onnx::TensorShapeProto& shape) {
    // An existing dimension of the same position keeps its denotation.
    while (shape.dim_size() > static_cast<int>(dims.size()))
        shape.mutable_dim()->RemoveLast();
    for (std::size_t i = 0; i < dims.size(); ++i) {
        auto* dim = static_cast<int>(i) < shape.dim_size() ? shape.mutable_dim(static_cast<int>(i)) : shape.add_dim();
        dim->clear_value();
        if (dims[i].size) {
            dim->set_dim_value(*dims[i].size);
        } else if (!dims[i].symbol.empty()) {
            dim->set_dim_param(dims[i].symbol);
        }
    }
}

std::size_t large(const Tensor& tensor) {
    // Integers decide shapes (Reshape targets, Slice bounds); such tensors are never long.
    const bool integer = tensor.type() == DataType::int64 || tensor.type() == DataType::int32;
    return integer ? 65'536 : 4'096;
}

} // namespace

bool is_left_out(const Tensor& tensor) { return tensor.bytes().size() > large(tensor); }

void export_tensor_header(const Tensor& tensor, onnx::TensorProto& proto) {
    proto.set_name(tensor.name);
    proto.set_data_type(static_cast<std::int32_t>(tensor.type()));
    for (const std::int64_t dim : tensor.shape())
        proto.add_dims(dim);
    if (!tensor.doc.empty()) proto.set_doc_string(tensor.doc);
    export_metadata(tensor.metadata, *proto.mutable_metadata_props());
}

void Exporter::tensor(const Tensor& tensor, onnx::TensorProto& proto) const {
    export_tensor_header(tensor, proto);
    if (tensor.type() == DataType::string) {
        for (const std::string& text : tensor.strings())
            proto.add_string_data(text);
        return;
    }
    if (data != TensorData::inside && is_left_out(tensor)) {
        if (data == TensorData::large_emptied) {
            proto.clear_dims();
            proto.add_dims(0);
        }
        return;
    }
    const auto bytes = tensor.bytes();
    proto.set_raw_data(bytes.data(), bytes.size());
}

Result<void> export_value_info(const ValueInfo& info, onnx::ValueInfoProto& proto) {
    proto.set_name(info.name);
    if (!info.doc.empty()) proto.set_doc_string(info.doc);
    export_metadata(info.metadata, *proto.mutable_metadata_props());
    if (!info.opaque_type.empty()) {
        LATHE_CHECK(restore(*proto.mutable_type(), info.opaque_type, "type"));
        if (!proto.type().has_tensor_type()) return {};
    } else if (info.type == DataType::undefined && !info.dims) {
        return {};
    }
    auto* tensor = proto.mutable_type()->mutable_tensor_type();
    if (info.type != DataType::undefined) tensor->set_elem_type(static_cast<std::int32_t>(info.type));
    if (info.dims) {
        export_dims(*info.dims, *tensor->mutable_shape());
    } else {
        tensor->clear_shape();
    }
    return {};
}

Result<void> Exporter::attribute(const Attribute& attribute, onnx::AttributeProto& proto) const {
    if (const auto* opaque = std::get_if<OpaqueAttribute>(&attribute.value)) {
        LATHE_CHECK(restore(proto, opaque->bytes, "attribute"));
    }
    proto.set_name(attribute.name);
    if (!attribute.doc.empty()) proto.set_doc_string(attribute.doc);
    Result<void> result;
    std::visit(
        [&](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::int64_t>) {
                proto.set_type(onnx::AttributeProto::INT);
                proto.set_i(value);
            } else if constexpr (std::is_same_v<T, float>) {
                proto.set_type(onnx::AttributeProto::FLOAT);
                proto.set_f(value);
            } else if constexpr (std::is_same_v<T, std::string>) {
                proto.set_type(onnx::AttributeProto::STRING);
                proto.set_s(value);
            } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
                proto.set_type(onnx::AttributeProto::INTS);
                proto.mutable_ints()->Add(value.begin(), value.end());
            } else if constexpr (std::is_same_v<T, std::vector<float>>) {
                proto.set_type(onnx::AttributeProto::FLOATS);
                proto.mutable_floats()->Add(value.begin(), value.end());
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
                proto.set_type(onnx::AttributeProto::STRINGS);
                for (const std::string& text : value)
                    proto.add_strings(text);
            } else if constexpr (std::is_same_v<T, Tensor>) {
                proto.set_type(onnx::AttributeProto::TENSOR);
                tensor(value, *proto.mutable_t());
            } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
                proto.set_type(onnx::AttributeProto::TENSORS);
                for (const Tensor& each : value)
                    tensor(each, *proto.add_tensors());
            } else if constexpr (std::is_same_v<T, GraphBox>) {
                proto.set_type(onnx::AttributeProto::GRAPH);
                result = graph(*value, *proto.mutable_g(), false);
            } else if constexpr (std::is_same_v<T, std::vector<GraphBox>>) {
                proto.set_type(onnx::AttributeProto::GRAPHS);
                for (const GraphBox& each : value) {
                    if (result) result = graph(*each, *proto.add_graphs(), false);
                }
            } else if constexpr (std::is_same_v<T, AttributeReference>) {
                proto.set_ref_attr_name(value.name);
                proto.set_type(static_cast<onnx::AttributeProto::AttributeType>(value.onnx_type));
            }
        },
        attribute.value);
    return result;
}

Result<void> Exporter::node(const Node& node, onnx::NodeProto& proto) const {
    if (!node.opaque.empty()) LATHE_CHECK(restore(proto, node.opaque, "node"));
    if (!node.name.empty()) proto.set_name(node.name);
    proto.set_op_type(node.op_type);
    if (!node.domain.empty()) proto.set_domain(node.domain);
    if (!node.overload.empty()) proto.set_overload(node.overload);
    if (!node.doc.empty()) proto.set_doc_string(node.doc);
    for (const std::string& input : node.inputs)
        proto.add_input(input);
    for (const std::string& output : node.outputs)
        proto.add_output(output);
    export_metadata(node.metadata, *proto.mutable_metadata_props());
    for (const Attribute& each : node.attributes)
        LATHE_CHECK(attribute(each, *proto.add_attribute()));
    return {};
}

Result<void> Exporter::graph(const Graph& graph, onnx::GraphProto& proto, bool main) const {
    proto.set_name(graph.name);
    if (!graph.doc.empty()) proto.set_doc_string(graph.doc);
    export_metadata(graph.metadata, *proto.mutable_metadata_props());
    for (const ValueInfo& info : graph.inputs)
        LATHE_CHECK(export_value_info(info, *proto.add_input()));
    for (const ValueInfo& info : graph.outputs)
        LATHE_CHECK(export_value_info(info, *proto.add_output()));
    for (const auto& [name, info] : graph.value_infos) {
        auto* value_info = proto.add_value_info();
        LATHE_CHECK(export_value_info(info, *value_info));
        value_info->set_name(name);
    }
    if (!main || initializers) {
        for (const auto& [name, each] : graph.initializers) {
            auto* initializer = proto.add_initializer();
            tensor(each, *initializer);
            initializer->set_name(name);
        }
    }
    for (const std::string& bytes : graph.opaque_sparse_initializers)
        LATHE_CHECK(restore(*proto.add_sparse_initializer(), bytes, "sparse initializer"));
    for (const std::string& bytes : graph.opaque_quantization_annotations)
        LATHE_CHECK(restore(*proto.add_quantization_annotation(), bytes, "quantization annotation"));
    for (const auto& each : graph.nodes)
        LATHE_CHECK(node(*each, *proto.add_node()));
    return {};
}

Result<onnx::ModelProto> Exporter::model(const Model& model) const {
    onnx::ModelProto proto;
    if (!model.opaque.empty()) LATHE_CHECK(restore(proto, model.opaque, "model"));
    std::int64_t ir_version = model.ir_version > 0 ? model.ir_version : 8;
    // Before IR version 3 a model named no operator sets: version 1 of ONNX's own was meant.
    if (ir_version < 3 && model.opsets != decltype(model.opsets){{"", 1}}) ir_version = 3;
    // Before IR version 4 every initializer had to be an input too.
    for (const auto& [name, tensor] : model.graph.initializers) {
        if (ir_version < 4 && model.graph.find_input(name) == nullptr) ir_version = 4;
    }
    proto.set_ir_version(ir_version);
    if (!model.producer_name.empty()) proto.set_producer_name(model.producer_name);
    if (!model.producer_version.empty()) proto.set_producer_version(model.producer_version);
    if (!model.domain.empty()) proto.set_domain(model.domain);
    if (model.model_version != 0) proto.set_model_version(model.model_version);
    if (!model.doc.empty()) proto.set_doc_string(model.doc);
    export_metadata(model.metadata, *proto.mutable_metadata_props());
    for (const auto& [domain, version] : model.opsets) {
        if (ir_version < 3) continue;
        auto* import = proto.add_opset_import();
        import->set_domain(domain);
        import->set_version(version);
    }
    for (const std::string& bytes : model.opaque_functions)
        LATHE_CHECK(restore(*proto.add_functions(), bytes, "function"));
    for (const std::string& bytes : model.opaque_training_info)
        LATHE_CHECK(restore(*proto.add_training_info(), bytes, "training info"));
    for (const std::string& bytes : model.opaque_configurations)
        LATHE_CHECK(restore(*proto.add_configuration(), bytes, "device configuration"));
    LATHE_CHECK(graph(model.graph, *proto.mutable_graph(), true));
    return proto;
}

} // namespace lathe::proto
