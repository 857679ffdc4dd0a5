#include "onnx/node_writer.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "graph/subgraphs.hpp"
#include "support/half.hpp"

namespace lathe {

Node made(std::string type, std::vector<std::string> inputs) {
    Node node;
    node.op_type = std::move(type);
    node.inputs = std::move(inputs);
    return node;
}

void copy_attributes(const Node& from, Node& to, const std::vector<std::string_view>& without) {
    for (const Attribute& each : from.attributes) {
        if (std::ranges::find(without, each.name) == without.end()) to.attributes.push_back(each);
    }
}

void NodeWriter::put(Node node, std::vector<std::string> outputs) {
    node.outputs = std::move(outputs);
    node.name = nodes_.empty() ? node_.name : "";
    nodes_.push_back(std::move(node));
}

std::string NodeWriter::give(Node node, std::string_view suffix) {
    const auto named = std::ranges::find_if(node_.outputs, [](const std::string& each) { return !each.empty(); });
    const std::string stem = named == node_.outputs.end() ? node_.op_type : *named;
    const std::string name = graph_.unique_name(stem + "_" + std::string(suffix));
    put(std::move(node), {name});
    return name;
}

std::string NodeWriter::op(std::string type, std::vector<std::string> inputs,
                           std::initializer_list<std::pair<const char*, AttributeValue>> attributes) {
    Node node = made(std::move(type), std::move(inputs));
    for (const auto& [name, value] : attributes)
        node.set(name, value);
    const std::string suffix = node.op_type;
    return give(std::move(node), suffix);
}

void NodeWriter::result(std::size_t index, const std::string& value) {
    if (!wants(index)) return;
    const std::string& output = node_.output(index);
    const bool given_away = std::ranges::find(node_.outputs, value) != node_.outputs.end();
    const bool computed_here = std::ranges::any_of(
        nodes_, [&](const Node& each) { return std::ranges::find(each.outputs, value) != each.outputs.end(); });
    if (!computed_here || given_away) return put(made("Identity", {value}), {output});
    for (Node& each : nodes_) {
        std::ranges::replace(each.inputs, value, output);
        std::ranges::replace(each.outputs, value, output);
    }
}

std::string NodeWriter::add(const std::string& stem, const Tensor& tensor) {
    const std::string name = graph_.unique_name(stem);
    graph_.initializers.insert_or_assign(name, tensor.renamed(name));
    return name;
}

std::string NodeWriter::integers(std::vector<std::int64_t> values) {
    return add("integers", Tensor::of_int64s("", {static_cast<std::int64_t>(values.size())}, values));
}

std::string NodeWriter::integer(std::int64_t value) {
    return add("integer", Tensor::of_int64s("", {}, std::array{value}));
}

std::string NodeWriter::number(double value, const std::string& like) {
    const auto single = static_cast<float>(value);
    switch (type(like)) {
        case DataType::float16:
            return add("number",
                       Tensor::of<std::uint16_t>("", DataType::float16, {}, std::array{half_from_float(single)}));
        case DataType::bfloat16:
            return add("number",
                       Tensor::of<std::uint16_t>("", DataType::bfloat16, {}, std::array{bfloat16_from_float(single)}));
        case DataType::float64: return add("number", Tensor::of<double>("", DataType::float64, {}, std::array{value}));
        default: return add("number", Tensor::of_floats("", {}, std::array{single}));
    }
}

DataType NodeWriter::type(const std::string& value) const { return graph_.info_or_name(value).type; }

std::optional<std::size_t> NodeWriter::rank(const std::string& value) const {
    const ValueInfo info = graph_.info_or_name(value);
    return info.dims ? std::optional(info.dims->size()) : std::nullopt;
}

std::optional<std::int64_t> NodeWriter::size(const std::string& value, std::int64_t axis) const {
    const ValueInfo info = graph_.info_or_name(value);
    if (!info.dims) return std::nullopt;
    const auto dimensions = static_cast<std::int64_t>(info.dims->size());
    const std::int64_t at = axis < 0 ? axis + dimensions : axis;
    if (at < 0 || at >= dimensions) return std::nullopt;
    return (*info.dims)[static_cast<std::size_t>(at)].size;
}

std::size_t write_out_nodes(Graph& graph, const InPlaceOf& in_place_of) {
    std::map<std::size_t, std::vector<Node>> instead; // by place; the graph is whole while names are asked of it
    std::size_t count = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = *graph.nodes[i];
        for_each_subgraph(node, [&](Graph& inner) {
            inner.share_names(graph);
            count += write_out_nodes(inner, in_place_of);
        });
        if (auto nodes = in_place_of(graph, node)) instead.emplace(i, std::move(*nodes));
    }
    count += instead.size();
    if (!instead.empty()) graph.replace_nodes(std::move(instead));
    return count;
}

} // namespace lathe
