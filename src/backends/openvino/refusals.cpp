#include "backends/openvino/refusals.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/openvino/core.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"

namespace lathe::openvino {

namespace {

const char* const cure = "replace the operator, leave its part of the model to your program, or build for another "
                         "device (lathe doctor names them)";

void collect_nodes(const Graph& graph, std::vector<const Node*>& nodes) {
    for (const auto& node : graph.nodes) {
        nodes.push_back(node.get());
        for_each_subgraph(*node, [&](const Graph& body) { collect_nodes(body, nodes); });
    }
}

std::string operator_of(const Node& node) {
    return node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type;
}

/// The text between `begin` and the next `end`; nothing where `begin` does not occur.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
    const auto at = text.find(begin);
    if (at == text.npos) return "";
    const auto start = at + begin.size();
    return text.substr(start, std::min(text.find(end, start), text.size()) - start);
}

/// "ai.onnx.ml.LabelEncoder-2" is LabelEncoder.
std::string_view bare_operator(std::string_view name) {
    while (!name.empty() && name.front() == ' ')
        name.remove_prefix(1);
    const auto dash = name.rfind('-');
    if (dash != name.npos && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dash) + 1, name.end(),
                                         [](unsigned char c) { return std::isdigit(c) != 0; }))
        name = name.substr(0, dash);
    const auto dot = name.find_last_of(".:");
    return dot == name.npos ? name : name.substr(dot + 1);
}

/// The first node of this operator; where several are, the one whose name or output the text tells.
const Node* find_node(const std::vector<const Node*>& nodes, std::string_view op_type, const std::string& text) {
    const Node* first = nullptr;
    for (const Node* node : nodes) {
        if (node->op_type != op_type) continue;
        if (first == nullptr) first = node;
        const std::string& name = node->name.empty() ? node->output(0) : node->name;
        if (!name.empty() && text.find("): " + name) != text.npos) return node;
    }
    return first;
}

Error lacks(const Node& node, const std::string& why) {
    return {ErrorCode::unsupported,
            "OpenVINO has no form of " + operator_of(node) + (why.empty() ? "" : " as it is used here: " + why),
            "node " + node.label(), cure};
}

Error foreign(const Node& node) {
    Error error = lacks(node, "an operator of another domain than ONNX's");
    if (node.domain == "com.microsoft.nchwc")
        error.hint =
            "ONNX Runtime saved this model after it fitted it to one processor: use the model before that, or save "
            "it with the graph optimisation level ORT_ENABLE_EXTENDED";
    return error;
}

/// What a failed conversion says, without the names of OpenVINO's own parts.
std::string plain(std::string text) {
    for (const std::string_view noise :
         {"FrontEnd API failed with OpConversionFailure:; ", "FrontEnd API failed with GeneralFailure:; ",
          "Model wasn't fully converted. ", "Failed operations detailed log:; "}) {
        for (auto at = text.find(noise); at != text.npos; at = text.find(noise, at))
            text.erase(at, noise.size());
    }
    for (auto at = text.find("While validating ONNX node '"); at != text.npos;
         at = text.find("While validating ONNX node '", at)) {
        const auto end = text.find("':", at);
        if (end == text.npos) break;
        text.erase(at, end - at + 2);
        while (at < text.size() && (text[at] == ';' || text[at] == ' '))
            text.erase(at, 1);
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == ';' || text.back() == '.'))
        text.pop_back();
    return text;
}

const Node* find_sequence(const std::vector<const Node*>& nodes) {
    const auto found = std::ranges::find_if(nodes, [](const Node* node) {
        return node->op_type.find("Sequence") != std::string::npos || node->op_type.starts_with("Optional");
    });
    return found == nodes.end() ? nullptr : *found;
}

/// The first operator of OpenVINO's list of what it has no rule for. Sequences and optionals it names by parts of its
/// own.
Error without_rule(const std::string& list, const std::vector<const Node*>& nodes) {
    std::size_t start = 0;
    while (start < list.size()) {
        const auto end = std::min(list.find(',', start), list.size());
        if (const Node* node = find_node(nodes, bare_operator(std::string_view(list).substr(start, end - start)), list))
            return lacks(*node, "");
        start = end + 1;
    }
    if (const Node* node = find_sequence(nodes)) return lacks(*node, "");
    return {ErrorCode::unsupported, "OpenVINO has no form of what the model needs: " + list, "", cure};
}

/// Whether a complaint is about a rank that is not known.
bool is_about_rank(const std::string& why) {
    return why.find("rank") != std::string::npos &&
           (why.find("static") != std::string::npos || why.find("dynamic") != std::string::npos);
}

/// "-- Resize-19 with a message:; ...; -- Conv-16 with a message:; ...; Summary: ...", of the first operator.
Error with_message(const std::string& text, const std::vector<const Node*>& nodes) {
    const std::string name = between(text, "-- ", " with a message");
    const std::string all = between(text, " with a message:; ", "; Summary:");
    const std::string why = plain(all.substr(0, all.find("; -- ")));
    const Node* node = find_node(nodes, bare_operator(name), text);
    const auto asks = std::ranges::find_if(nodes, [](const Node* each) { return each->is("If"); });
    if (node != nullptr && asks != nodes.end() && is_about_rank(why)) {
        return {
            ErrorCode::unsupported,
            "OpenVINO must know how many dimensions the input of this " + operator_of(*node) + " has, and an If (" +
                (*asks)->label() + ") leaves that open",
            "node " + node->label(),
            "fix what the If asks for, and it becomes the branch that it takes: lathe simplify --shape INPUT:SIZES for "
            "a size, --constant INPUT=VALUE for a value"};
    }
    if (node != nullptr) return lacks(*node, why);
    return {ErrorCode::unsupported, "OpenVINO has no form of " + name + " as it is used here: " + why, "", cure};
}

/// "CPU plug-in doesn't support Unsqueeze operation with dynamic rank. Operation name: y"
Error with_open_rank(const std::string& text, const std::vector<const Node*>& nodes) {
    const std::string op_type = between(text, "CPU plug-in doesn't support ", " operation");
    const std::string name = between(text, "Operation name: ", ";");
    std::string where = name;
    for (const Node* node : nodes) {
        if (node->name == name || std::ranges::find(node->outputs, name) != node->outputs.end())
            where = "node " + node->label();
    }
    return {ErrorCode::unsupported,
            "OpenVINO takes no value whose number of dimensions is open, as that of this " + op_type + " is", where,
            "give the model's inputs fixed sizes (lathe simplify --shape), or export it with known shapes"};
}

} // namespace

Error in_our_words(Error error, const Model& model) {
    // Of a sequence it sometimes leaves an input behind that has no name.
    const bool asks = error.message.starts_with("OpenVINO asks for an input");
    const bool reading = error.message.starts_with("OpenVINO cannot read the model");
    if (error.code != ErrorCode::unsupported ||
        (!asks && !reading && !error.message.starts_with("OpenVINO cannot compile the model")))
        return error;
    std::vector<const Node*> nodes;
    collect_nodes(model.graph, nodes);
    if (asks) {
        const Node* node = find_sequence(nodes);
        return node == nullptr ? error : lacks(*node, "");
    }
    const std::string& text = error.message;
    if (text.find("CPU plug-in doesn't support ") != text.npos && text.find("dynamic rank") != text.npos)
        return with_open_rank(text, nodes);
    if (const std::string list = between(text, "No conversion rule found for operations: ", ";"); !list.empty())
        return without_rule(list, nodes);
    // Not where it knows no schema: that is a new operator, not a malformed file.
    Model copy = model; // shares the tensors
    if (auto sound = infer_shapes(copy, {.discard_existing = true, .strict = true});
        !sound && sound.error().message.find("No Op registered") == std::string::npos) {
        Error wrong = std::move(sound).error().in(error.where);
        wrong.code = ErrorCode::parse_error;
        wrong.message = "the model is not valid ONNX: " + brief(wrong.message.substr(0, wrong.message.find('\n')));
        return wrong;
    }
    if (const std::string type = between(text, "Unsupported data type ", " expected"); !type.empty()) {
        const Node* node = find_node(nodes, bare_operator(between(text, "-- ", " with a message")), text);
        return {ErrorCode::unsupported, "OpenVINO has no elements of type " + type,
                node == nullptr ? error.where : "node " + node->label(), cure};
    }
    if (text.find(" with a message:; ") != text.npos) return with_message(text, nodes);
    if (const std::string name = between(text, "Interpolate node with name '", "' only supports resize on spatial");
        !name.empty()) {
        const Node* node = find_node(nodes, "Resize", "): " + name);
        return {
            ErrorCode::unsupported,
            "OpenVINO resizes depth, height and width alone, and this Resize gives an axis of open size in front of "
            "them a size of its own",
            node == nullptr ? error.where : "node " + node->label(),
            "export the model with scales, or with sizes that follow the input's, or give the input one size "
            "(--shape)"};
    }
    // It does not always say which operator it was.
    for (const Node* node : nodes) {
        if (reading && !node->domain.empty() && text.find(node->op_type) == text.npos) return foreign(*node);
    }
    error.message = plain(text);
    if (error.hint.empty()) error.hint = cure;
    return error;
}

} // namespace lathe::openvino
