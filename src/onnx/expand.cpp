#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>

#include "onnx/onnx.hpp"
#include "onnx/proto.hpp"

namespace lathe {
namespace {

/// The body that ONNX defines for this node, if it defines one for this opset.
Result<std::optional<onnx::FunctionProto>> body_of(const Graph& graph, const Node& node, const onnx::NodeProto& proto,
                                                   int opset) {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type, opset, "");
    if (schema == nullptr) return std::optional<onnx::FunctionProto>{};
    onnx::FunctionProto body;
    bool found = false;
    LATHE_CHECK(proto::guarded(ErrorCode::unsupported, "writing out " + node.label(), [&] {
        if (const onnx::FunctionProto* fixed = schema->GetFunction(opset)) {
            body = *fixed;
            found = true;
        } else if (schema->HasContextDependentFunction()) {
            std::vector<onnx::TypeProto> types;
            for (const std::string& name : node.inputs) {
                onnx::ValueInfoProto info;
                const bool known =
                    !name.empty() && static_cast<bool>(proto::export_value_info(graph.info_or_name(name), info));
                types.push_back(known && info.has_type() ? info.type() : onnx::TypeProto{});
            }
            const onnx::FunctionBodyBuildContextImpl context(proto, types);
            found = schema->BuildContextDependentFunction(context, body, opset);
        }
    }));
    if (!found) return std::optional<onnx::FunctionProto>{};
    return std::optional(std::move(body));
}

/// Attributes of the body that are the node's: its own values, else the operator's defaults. Bodies inside too.
void fill_attributes(onnx::NodeProto& inner, const onnx::NodeProto& outer, const onnx::OpSchema& schema) {
    for (int i = inner.attribute_size(); i-- > 0;) {
        onnx::AttributeProto& attribute = *inner.mutable_attribute(i);
        for (onnx::NodeProto& deeper : *attribute.mutable_g()->mutable_node())
            fill_attributes(deeper, outer, schema);
        if (attribute.g().node_size() == 0) attribute.clear_g();
        if (attribute.ref_attr_name().empty()) continue;
        const std::string name = attribute.name();
        const auto given = std::find_if(outer.attribute().begin(), outer.attribute().end(),
                                        [&](const auto& each) { return each.name() == attribute.ref_attr_name(); });
        const auto known = schema.attributes().find(attribute.ref_attr_name());
        if (given != outer.attribute().end()) {
            attribute = *given;
            attribute.set_name(name);
        } else if (known != schema.attributes().end() && known->second.default_value.has_name()) {
            attribute = known->second.default_value;
            attribute.set_name(name);
        } else {
            inner.mutable_attribute()->DeleteSubrange(i, 1);
        }
    }
}

void rename(onnx::NodeProto& node, const std::unordered_map<std::string, std::string>& names) {
    const auto renamed = [&](std::string& name) {
        if (const auto found = names.find(name); found != names.end()) name = found->second;
    };
    for (std::string& name : *node.mutable_input())
        renamed(name);
    for (std::string& name : *node.mutable_output())
        renamed(name);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (!attribute.has_g()) continue;
        for (onnx::NodeProto& deeper : *attribute.mutable_g()->mutable_node())
            rename(deeper, names);
        for (onnx::ValueInfoProto& output : *attribute.mutable_g()->mutable_output())
            renamed(*output.mutable_name());
    }
}

void name_inner(const Graph& graph, const std::string& stem,
                const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                std::unordered_map<std::string, std::string>& names) {
    for (const onnx::NodeProto& inner : nodes) {
        for (const std::string& output : inner.output()) {
            if (output.empty() || names.contains(output)) continue;
            names.emplace(output, graph.unique_name(stem + "_" + output));
        }
        for (const onnx::AttributeProto& attribute : inner.attribute())
            if (attribute.has_g()) name_inner(graph, stem, attribute.g().node(), names);
    }
}

} // namespace

Result<bool> write_out_functions(Model& model, const std::function<bool(const Node&)>& wanted) {
    if (model.opset() <= 0 || model.opset() > std::numeric_limits<int>::max()) return false;
    const int opset = static_cast<int>(model.opset());
    Graph& graph = model.graph;
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const Node& node = *graph.nodes[at];
        if (!node.domain.empty() || !wanted(node)) continue;
        onnx::NodeProto proto;
        LATHE_CHECK(proto::Exporter{}.node(node, proto));
        LATHE_TRY(std::optional<onnx::FunctionProto> body, body_of(graph, node, proto, opset));
        if (!body) continue;
        const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type, opset, "");
        std::unordered_map<std::string, std::string> names;
        for (int i = 0; i < body->input_size(); ++i)
            names.emplace(body->input(i), node.input(static_cast<std::size_t>(i)));
        for (int i = 0; i < body->output_size(); ++i) {
            const std::string& output = node.output(static_cast<std::size_t>(i));
            if (!output.empty()) names.emplace(body->output(i), output);
        }
        const std::string stem = node.label().empty() ? node.op_type : node.output(0) + "/" + node.op_type;
        name_inner(graph, stem, body->node(), names);
        std::vector<Node> made;
        for (onnx::NodeProto& inner : *body->mutable_node()) {
            fill_attributes(inner, proto, *schema);
            rename(inner, names);
            LATHE_TRY(Node imported, proto::Importer{}.node(inner, 0));
            imported.name.clear();
            made.push_back(std::move(imported));
        }
        graph.nodes[at]->outputs.clear(); // its place is taken below
        graph.nodes[at]->inputs.clear();
        for (Node& each : made)
            graph.insert(++at, std::move(each));
        changed = true;
    }
    if (!changed) return false;
    graph.remove_nodes([](const Node& node) { return node.outputs.empty() && node.inputs.empty(); });
    LATHE_CHECK(graph.sort_topologically());
    return true;
}

} // namespace lathe
