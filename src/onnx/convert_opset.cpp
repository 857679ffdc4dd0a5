// Conversion between operator sets by ONNX's version converter. It works on a representation of its own that drops
// metadata, documentation and anything it does not know, so what it loses is put back from the original.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <onnx/version_converter/convert.h>

#include "onnx/op_types.hpp"
#include "onnx/proto.hpp"

namespace lathe {
namespace {

const char* re_export = "export the model from its framework with that opset (lathe export --opset N)";

/// Weights that were not shown to the converter, found again by name.
class LeftOut : public proto::TensorSource {
public:
    explicit LeftOut(const Graph& graph) : graph_(graph) {}
    Result<std::optional<Tensor>> find(const onnx::TensorProto& message) override {
        const Tensor* tensor = graph_.initializer(message.name());
        const bool empty = message.raw_data().empty() && message.float_data_size() == 0 &&
                           message.int32_data_size() == 0 && message.int64_data_size() == 0 &&
                           message.double_data_size() == 0 && message.uint64_data_size() == 0;
        if (tensor == nullptr || !empty || !proto::is_left_out(*tensor)) return std::optional<Tensor>();
        return std::optional<Tensor>(*tensor);
    }

private:
    const Graph& graph_;
};

/// The message names an operator; find a node of it. Else one of an operator that ONNX does not have.
std::string culprit(const Graph& graph, const std::string& message, std::int64_t target) {
    const auto is_word = [&](const std::string& word) {
        for (auto at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
            const auto end = at + word.size();
            const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(message[at - 1])) == 0;
            const bool ends = end == message.size() || std::isalnum(static_cast<unsigned char>(message[end])) == 0;
            if (begins && ends) return true;
        }
        return false;
    };
    for (const auto& node : graph.nodes) {
        if (is_word(node->op_type)) return "node " + node->label();
    }
    for (const auto& node : graph.nodes) {
        if (node->domain.empty() && !input_counts(*node, target)) return "node " + node->label();
    }
    return "";
}

/// What the converter says, without the place in its source and the text of its assertion.
std::string in_words(const std::string& message) {
    const std::string failed = "failed: ";
    const auto at = message.find("Assertion `");
    const auto told = at == std::string::npos ? at : message.find(failed, at);
    if (told == std::string::npos) return message;
    const std::string text = message.substr(told + failed.size());
    // One of its messages is put together wrongly: "Op '%s' has no registered schema ... %lld.Name1723".
    return text.find("%s") == std::string::npos ? text : "ONNX has no such operator in that opset";
}

Result<void> refuse_what_it_loses(const Model& model, std::int64_t target) {
    const auto refuse = [&](std::string message, std::string where, std::string hint) {
        return Error{ErrorCode::unsupported,
                     "cannot convert to opset " + std::to_string(target) + ": " + std::move(message), std::move(where),
                     std::move(hint)};
    };
    if (!model.opaque_functions.empty()) {
        return refuse("the model has functions of its own", "", "inline them first, or export the model again");
    }
    if (!model.graph.opaque_sparse_initializers.empty()) {
        return refuse("the model has sparse initializers", "", re_export);
    }
    for (const auto& node : model.graph.nodes) {
        for (const Attribute& attribute : node->attributes) {
            if (std::holds_alternative<OpaqueAttribute>(attribute.value)) {
                return refuse("attribute " + attribute.name + " is of a kind the converter drops",
                              "node " + node->label(), re_export);
            }
        }
    }
    return {};
}

void restore_values(const std::vector<ValueInfo>& from, std::vector<ValueInfo>& to) {
    for (ValueInfo& value : to) {
        const auto same =
            std::find_if(from.begin(), from.end(), [&](const ValueInfo& v) { return v.name == value.name; });
        if (same != from.end()) value = *same;
    }
}

/// Put back what the converter dropped.
void restore(const Model& from, Model& to) {
    to.ir_version = std::max(from.ir_version, to.ir_version);
    to.producer_name = from.producer_name;
    to.producer_version = from.producer_version;
    to.domain = from.domain;
    to.model_version = from.model_version;
    to.doc = from.doc;
    to.metadata = from.metadata;
    to.opaque = from.opaque;
    to.opaque_training_info = from.opaque_training_info;
    to.opaque_configurations = from.opaque_configurations;
    to.graph.name = from.graph.name;
    to.graph.doc = from.graph.doc;
    to.graph.metadata = from.graph.metadata;
    to.graph.opaque_quantization_annotations = from.graph.opaque_quantization_annotations;
    for (const auto& [domain, version] : from.opsets) {
        if (!domain.empty()) to.opsets[domain] = version;
    }
    restore_values(from.graph.inputs, to.graph.inputs);
    restore_values(from.graph.outputs, to.graph.outputs);
    for (auto& [name, tensor] : to.graph.initializers) {
        const Tensor* original = from.graph.initializer(name);
        if (original == nullptr) continue;
        tensor.doc = original->doc;
        tensor.metadata = original->metadata;
    }
    std::unordered_map<std::string, const Node*> producers;
    for (const auto& node : from.graph.nodes) {
        if (!node->output(0).empty()) producers[node->output(0)] = node.get();
    }
    for (const auto& node : to.graph.nodes) {
        const auto original = producers.find(node->output(0));
        if (original == producers.end()) continue;
        node->name = original->second->name;
        node->doc = original->second->doc;
        node->metadata = original->second->metadata;
        node->overload = original->second->overload;
        node->opaque = original->second->opaque;
    }
}

/// What the converter adds beside a node has that node's name, too; ONNX Runtime refuses two nodes of one name.
void tell_names_apart(const Graph& from, Graph& to) {
    std::unordered_set<std::string> taken, own;
    for (const auto& node : from.nodes) {
        taken.insert(node->name);
        if (!node->output(0).empty()) own.insert(node->output(0));
    }
    for (const auto& node : to.nodes) {
        if (node->name.empty() || own.contains(node->output(0))) continue; // its name was restored
        std::string name = node->name;
        for (int i = 1; !taken.insert(name).second; ++i)
            name = node->name + "/" + node->op_type + (i == 1 ? "" : std::to_string(i));
        node->name = name;
    }
}

Result<void> same_interface(const Graph& before, const Graph& after) {
    const auto names = [](const std::vector<ValueInfo>& values) {
        std::vector<std::string> list;
        for (const ValueInfo& value : values)
            list.push_back(value.name);
        return list;
    };
    if (names(before.inputs) == names(after.inputs) && names(before.outputs) == names(after.outputs)) return {};
    return Error{ErrorCode::unsupported, "ONNX's version converter changed the model's inputs or outputs", "",
                 re_export};
}

/// Shapes as they were told: the converter's own inference has another rule for pools that round up.
void keep_shapes(const Graph& from, Graph& to) {
    forget_value_infos(to);
    for (const auto& node : to.nodes) {
        for (const std::string& output : node->outputs) {
            const auto told = from.value_infos.find(output);
            if (told != from.value_infos.end()) to.value_infos.insert(*told);
        }
    }
}

} // namespace

Result<void> convert_opset(Model& model, std::int64_t target) {
    const std::int64_t current = model.opset();
    if (current == target) return {};
    if (current == 0) {
        return Error{ErrorCode::unsupported, "the model imports no ai.onnx operator set", "", "it has none to convert"};
    }
    if (target < 1 || target > latest_opset()) {
        return Error{ErrorCode::invalid_argument,
                     "opset " + std::to_string(target) + " does not exist in this ONNX version", "",
                     "choose one from 1 to " + std::to_string(latest_opset())};
    }
    LATHE_CHECK(refuse_what_it_loses(model, target));
    proto::Exporter exporter;
    exporter.initializers = false;
    LATHE_TRY(onnx::ModelProto message, exporter.model(model));
    for (const auto& [name, tensor] : model.graph.initializers) {
        auto* initializer = message.mutable_graph()->add_initializer();
        if (proto::is_left_out(tensor)) {
            proto::export_tensor_header(tensor, *initializer);
        } else {
            exporter.tensor(tensor, *initializer);
        }
        initializer->set_name(name);
    }
    message.set_ir_version(std::max<std::int64_t>(message.ir_version(), 4));
    onnx::ModelProto output;
    auto outcome = proto::guarded(ErrorCode::unsupported, "", [&] {
        output = onnx::version_conversion::ConvertVersion(message, static_cast<int>(target));
    });
    if (!outcome) {
        Error error = std::move(outcome).error();
        error.where = culprit(model.graph, error.message, target);
        error.message = "cannot convert from opset " + std::to_string(current) + " to " + std::to_string(target) +
                        ": " + in_words(error.message);
        error.hint = re_export;
        return error;
    }
    LeftOut left_out(model.graph);
    proto::Importer importer{&left_out, 64};
    LATHE_TRY(Model converted, importer.model(output));
    restore(model, converted);
    tell_names_apart(model.graph, converted.graph);
    keep_shapes(model.graph, converted.graph);
    LATHE_CHECK(same_interface(model.graph, converted.graph));
    LATHE_CHECK(verify(converted));
    auto verdict = check_onnx(converted, {true});
    // Declared shapes that contradict the nodes were there before.
    if (!verdict && check_onnx(model, {true})) {
        Error error = std::move(verdict).error();
        error.code = ErrorCode::unsupported;
        error.message =
            "ONNX's version converter made an invalid model of opset " + std::to_string(target) + ": " + error.message;
        error.hint = re_export;
        return error;
    }
    model = std::move(converted);
    return {};
}

} // namespace lathe
