// Graphs, nodes, attributes and value infos from protobuf.

#include <algorithm>

#include "onnx/proto.hpp"
#include "support/log.hpp"

namespace lathe::proto {

Error malformed(std::string message, std::string where) {
    return {ErrorCode::parse_error, std::move(message), std::move(where),
            "the file is damaged or was written by a faulty exporter"};
}

namespace {

Metadata import_metadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries) {
    Metadata metadata;
    for (const auto& entry : entries)
        metadata.emplace_back(entry.key(), entry.value());
    return metadata;
}

std::string import_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

/// Which kinds of value the proto holds, by field number's type; more than one makes the attribute ambiguous.
std::vector<onnx::AttributeProto::AttributeType> kinds_present(const onnx::AttributeProto& proto) {
    std::vector<onnx::AttributeProto::AttributeType> kinds;
    const auto note = [&](bool present, onnx::AttributeProto::AttributeType kind) {
        if (present) kinds.push_back(kind);
    };
    note(proto.has_f(), onnx::AttributeProto::FLOAT);
    note(proto.has_i(), onnx::AttributeProto::INT);
    note(proto.has_s(), onnx::AttributeProto::STRING);
    note(proto.has_t(), onnx::AttributeProto::TENSOR);
    note(proto.has_g(), onnx::AttributeProto::GRAPH);
    note(proto.has_sparse_tensor(), onnx::AttributeProto::SPARSE_TENSOR);
    note(proto.has_tp(), onnx::AttributeProto::TYPE_PROTO);
    note(proto.floats_size() > 0, onnx::AttributeProto::FLOATS);
    note(proto.ints_size() > 0, onnx::AttributeProto::INTS);
    note(proto.strings_size() > 0, onnx::AttributeProto::STRINGS);
    note(proto.tensors_size() > 0, onnx::AttributeProto::TENSORS);
    note(proto.graphs_size() > 0, onnx::AttributeProto::GRAPHS);
    note(proto.sparse_tensors_size() > 0, onnx::AttributeProto::SPARSE_TENSORS);
    note(proto.type_protos_size() > 0, onnx::AttributeProto::TYPE_PROTOS);
    return kinds;
}

/// True if the graph models all that this TypeProto says.
bool is_plain_tensor(const onnx::TypeProto& type) {
    if (!type.has_tensor_type() || type.has_denotation() || !type.unknown_fields().empty()) return false;
    const auto& tensor = type.tensor_type();
    if (tensor.elem_type() == onnx::TensorProto::UNDEFINED || !tensor.unknown_fields().empty()) return false;
    return std::all_of(tensor.shape().dim().begin(), tensor.shape().dim().end(),
                       [](const auto& dim) { return !dim.has_denotation() && dim.unknown_fields().empty(); });
}

void warn_unknown(const google::protobuf::UnknownFieldSet& fields, const std::string& where) {
    if (fields.empty()) return;
    log(LogLevel::warning, where + " has fields this ONNX version does not know; they are dropped");
}

} // namespace

Result<ValueInfo> import_value_info(const onnx::ValueInfoProto& proto) {
    ValueInfo info;
    info.name = proto.name();
    info.doc = proto.doc_string();
    info.metadata = import_metadata(proto.metadata_props());
    warn_unknown(proto.unknown_fields(), "value " + info.name);
    if (!proto.has_type()) return info;
    if (!is_plain_tensor(proto.type())) info.opaque_type = serialize(proto.type());
    if (!proto.type().has_tensor_type()) return info;

    const auto& tensor = proto.type().tensor_type();
    if (!onnx::TensorProto::DataType_IsValid(tensor.elem_type())) {
        return malformed("element type " + std::to_string(tensor.elem_type()) + " is not one ONNX defines",
                         "value " + info.name);
    }
    info.type = static_cast<DataType>(tensor.elem_type());
    if (!tensor.has_shape()) return info;
    std::vector<Dimension> dims;
    for (const auto& dim : tensor.shape().dim()) {
        if (dim.has_dim_value()) {
            if (dim.dim_value() < -1) {
                return malformed("a dimension is " + std::to_string(dim.dim_value()), "value " + info.name);
            }
            // Some exporters write -1 for "not known", which ONNX expresses by leaving the dimension out.
            dims.push_back(dim.dim_value() == -1 ? Dimension{} : Dimension::of(dim.dim_value()));
        } else {
            dims.push_back(Dimension::named(dim.dim_param()));
        }
    }
    info.dims = std::move(dims);
    return info;
}

Result<Attribute> Importer::attribute(onnx::AttributeProto& proto, int depth) {
    Attribute result{proto.name(), std::int64_t{0}, proto.doc_string()};
    if (proto.name().empty()) return malformed("an attribute has no name");
    const auto place = [&](Error error) { return std::move(error).in("attribute " + result.name); };
    if (!proto.ref_attr_name().empty()) {
        result.value = AttributeReference{proto.ref_attr_name(), proto.type()};
        return result;
    }
    const auto kinds = kinds_present(proto);
    auto type = proto.type();
    // Files before IR version 2 may leave the type out.
    if (type == onnx::AttributeProto::UNDEFINED && kinds.size() == 1) type = kinds.front();
    const bool ambiguous = kinds.size() > 1 || (kinds.size() == 1 && kinds.front() != type);
    if (ambiguous || !proto.unknown_fields().empty()) {
        result.value = OpaqueAttribute{serialize(proto)};
        return result;
    }
    switch (type) {
        case onnx::AttributeProto::FLOAT: result.value = proto.f(); break;
        case onnx::AttributeProto::INT: result.value = std::int64_t{proto.i()}; break;
        case onnx::AttributeProto::STRING: result.value = proto.s(); break;
        case onnx::AttributeProto::FLOATS:
            result.value = std::vector<float>(proto.floats().begin(), proto.floats().end());
            break;
        case onnx::AttributeProto::INTS:
            result.value = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
            break;
        case onnx::AttributeProto::STRINGS:
            result.value = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
            break;
        case onnx::AttributeProto::TENSOR: {
            auto tensor = this->tensor(*proto.mutable_t());
            if (!tensor) return place(std::move(tensor).error());
            result.value = std::move(*tensor);
            break;
        }
        case onnx::AttributeProto::TENSORS: {
            std::vector<Tensor> tensors;
            for (auto& each : *proto.mutable_tensors()) {
                auto tensor = this->tensor(each);
                if (!tensor) return place(std::move(tensor).error());
                tensors.push_back(std::move(*tensor));
            }
            result.value = std::move(tensors);
            break;
        }
        case onnx::AttributeProto::GRAPH: {
            auto graph = this->graph(*proto.mutable_g(), depth + 1);
            if (!graph) return place(std::move(graph).error());
            result.value = GraphBox(std::move(*graph));
            break;
        }
        case onnx::AttributeProto::GRAPHS: {
            std::vector<GraphBox> graphs;
            for (auto& each : *proto.mutable_graphs()) {
                auto graph = this->graph(each, depth + 1);
                if (!graph) return place(std::move(graph).error());
                graphs.emplace_back(std::move(*graph));
            }
            result.value = std::move(graphs);
            break;
        }
        default: result.value = OpaqueAttribute{serialize(proto)}; break; // sparse tensors, types, none at all
    }
    return result;
}

Result<Node> Importer::node(onnx::NodeProto& proto, int depth) {
    Node node;
    node.name = proto.name();
    node.op_type = proto.op_type();
    node.domain = import_domain(proto.domain());
    node.overload = proto.overload();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    node.doc = proto.doc_string();
    node.metadata = import_metadata(proto.metadata_props());
    node.attributes.reserve(static_cast<std::size_t>(proto.attribute_size()));
    for (auto& each : *proto.mutable_attribute()) {
        auto attribute = this->attribute(each, depth);
        if (!attribute) return std::move(attribute).error().in("node " + node.label());
        node.attributes.push_back(std::move(*attribute));
    }
    if (proto.device_configurations_size() > 0 || !proto.unknown_fields().empty()) {
        onnx::NodeProto rest;
        rest.mutable_device_configurations()->Swap(proto.mutable_device_configurations());
        rest.mutable_unknown_fields()->Swap(proto.mutable_unknown_fields());
        node.opaque = serialize(rest);
    }
    return node;
}

Result<Graph> Importer::graph(onnx::GraphProto& proto, int depth) {
    if (depth > max_depth) {
        return Error{ErrorCode::unsupported, "subgraphs are nested deeper than " + std::to_string(max_depth), "",
                     "no exporter writes such models; the file is damaged or hostile"};
    }
    Graph graph;
    graph.name = proto.name();
    graph.doc = proto.doc_string();
    graph.metadata = import_metadata(proto.metadata_props());
    if (depth > 0) warn_unknown(proto.unknown_fields(), "graph " + graph.name);
    for (const auto& each : proto.input()) {
        LATHE_TRY(auto info, import_value_info(each));
        graph.inputs.push_back(std::move(info));
    }
    for (const auto& each : proto.output()) {
        LATHE_TRY(auto info, import_value_info(each));
        graph.outputs.push_back(std::move(info));
    }
    for (const auto& each : proto.value_info()) {
        LATHE_TRY(auto info, import_value_info(each));
        const std::string name = info.name;
        if (!graph.value_infos.emplace(name, std::move(info)).second) {
            log(LogLevel::warning, "value " + name + " has two value infos; the first is kept");
        }
    }
    for (int i = 0; i < proto.initializer_size(); ++i) {
        auto& each = *proto.mutable_initializer(i);
        warn_unknown(each.unknown_fields(), "tensor " + each.name());
        const bool parted = apart != nullptr && depth == 0;
        auto tensor =
            this->tensor(each, parted ? apart->weights.at(static_cast<std::size_t>(i)) : std::span<const std::byte>());
        if (!tensor) return std::move(tensor).error().in("graph " + graph.name);
        if (tensor->name.empty()) return malformed("an initializer has no name", "graph " + graph.name);
        const std::string name = tensor->name;
        if (!graph.initializers.emplace(name, std::move(*tensor)).second) {
            return malformed("two initializers have the same name", "tensor " + name);
        }
    }
    for (const auto& each : proto.sparse_initializer())
        graph.opaque_sparse_initializers.push_back(serialize(each));
    for (const auto& each : proto.quantization_annotation())
        graph.opaque_quantization_annotations.push_back(serialize(each));
    graph.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    for (auto& each : *proto.mutable_node()) {
        LATHE_TRY(auto node, this->node(each, depth));
        graph.add(std::move(node));
    }
    return graph;
}

Result<Model> Importer::model(onnx::ModelProto& proto) {
    if (!proto.has_graph() || proto.ir_version() < 1) {
        return malformed("the file holds no ONNX graph");
    }
    if (proto.ir_version() > onnx::IR_VERSION) {
        return Error{ErrorCode::unsupported,
                     "the model has IR version " + std::to_string(proto.ir_version()) +
                         ", newer than the newest known, " + std::to_string(onnx::IR_VERSION),
                     "", "export it for an older ONNX, or update Lathe"};
    }
    Model model;
    model.ir_version = proto.ir_version();
    model.producer_name = proto.producer_name();
    model.producer_version = proto.producer_version();
    model.domain = proto.domain();
    model.model_version = proto.model_version();
    model.doc = proto.doc_string();
    model.metadata = import_metadata(proto.metadata_props());
    for (const auto& import : proto.opset_import()) {
        const std::string domain = import_domain(import.domain());
        if (import.version() < 1 || import.version() > std::numeric_limits<std::int32_t>::max()) {
            return malformed("operator set \"" + import.domain() + "\" has version " +
                             std::to_string(import.version()));
        }
        const auto [known, fresh] = model.opsets.emplace(domain, import.version());
        if (!fresh && known->second != import.version()) {
            return malformed("operator set \"" + import.domain() + "\" is imported in two versions");
        }
    }
    // Before IR version 3 there was one operator set and no import of it.
    if (model.opsets.empty() && model.ir_version < 3) model.opsets.emplace("", 1);
    for (const auto& each : proto.functions())
        model.opaque_functions.push_back(serialize(each));
    for (const auto& each : proto.training_info())
        model.opaque_training_info.push_back(serialize(each));
    for (const auto& each : proto.configuration())
        model.opaque_configurations.push_back(serialize(each));
    if (!proto.unknown_fields().empty() || !proto.graph().unknown_fields().empty()) {
        onnx::ModelProto rest;
        rest.mutable_unknown_fields()->Swap(proto.mutable_unknown_fields());
        if (!proto.graph().unknown_fields().empty()) {
            rest.mutable_graph()->mutable_unknown_fields()->Swap(proto.mutable_graph()->mutable_unknown_fields());
        }
        model.opaque = serialize(rest);
    }
    LATHE_TRY(model.graph, graph(*proto.mutable_graph(), 0));
    return model;
}

} // namespace lathe::proto
