#include "graph/graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "graph/subgraphs.hpp"

namespace lathe {
namespace {

const ValueInfo* find_value(const std::vector<ValueInfo>& values, std::string_view name) {
    const auto found = std::find_if(values.begin(), values.end(), [&](const ValueInfo& v) { return v.name == name; });
    return found == values.end() ? nullptr : &*found;
}

void collect_names(const Graph& graph, std::unordered_set<std::string>& names) {
    for (const ValueInfo& value : graph.inputs)
        names.insert(value.name);
    for (const ValueInfo& value : graph.outputs)
        names.insert(value.name);
    for (const auto& [name, info] : graph.value_infos)
        names.insert(name);
    for (const auto& [name, tensor] : graph.initializers)
        names.insert(name);
    for (const std::string& sparse : graph.opaque_sparse_initializers)
        names.insert(sparse_initializer_name(sparse));
    for (const auto& node : graph.nodes) {
        names.insert(node->name);
        names.insert(node->inputs.begin(), node->inputs.end());
        names.insert(node->outputs.begin(), node->outputs.end());
        for_each_subgraph(*node, [&](const Graph& inner) { collect_names(inner, names); });
    }
}

void rename_captures(Graph& graph, const std::string& from, const std::string& to) {
    if (defined_names(graph).contains(from)) return; // shadowed: means another value here
    graph.replace_uses(from, to);
    // The output of a body is matched by position, and a name from outside is one more reader of it.
    for (ValueInfo& output : graph.outputs) {
        if (output.name == from) output.name = to;
    }
}

} // namespace

struct Graph::Names {
    std::unordered_set<std::string> taken;
    std::unordered_map<std::string, std::size_t> next; ///< by stem: where to go on counting
};

Graph::Graph(const Graph& other)
    : name(other.name), doc(other.doc), metadata(other.metadata), inputs(other.inputs), outputs(other.outputs),
      value_infos(other.value_infos), initializers(other.initializers),
      opaque_sparse_initializers(other.opaque_sparse_initializers),
      opaque_quantization_annotations(other.opaque_quantization_annotations) {
    nodes.reserve(other.nodes.size());
    for (const auto& node : other.nodes)
        nodes.push_back(std::make_unique<Node>(*node));
}

Graph& Graph::operator=(Graph other) noexcept {
    name = std::move(other.name);
    doc = std::move(other.doc);
    metadata = std::move(other.metadata);
    inputs = std::move(other.inputs);
    outputs = std::move(other.outputs);
    value_infos = std::move(other.value_infos);
    initializers = std::move(other.initializers);
    nodes = std::move(other.nodes);
    opaque_sparse_initializers = std::move(other.opaque_sparse_initializers);
    opaque_quantization_annotations = std::move(other.opaque_quantization_annotations);
    names_ = std::move(other.names_);
    nodes_named_ = other.nodes_named_;
    return *this;
}

Node& Graph::add(Node node) { return insert(nodes.size(), std::move(node)); }

Node& Graph::insert(std::size_t index, Node node) {
    if (names_) {
        names_->taken.insert(node.name);
        names_->taken.insert(node.outputs.begin(), node.outputs.end());
        ++nodes_named_;
    }
    const auto place = nodes.begin() + static_cast<std::ptrdiff_t>(std::min(index, nodes.size()));
    return **nodes.insert(place, std::make_unique<Node>(std::move(node)));
}

void Graph::replace_nodes(std::map<std::size_t, std::vector<Node>> instead) {
    std::vector<std::unique_ptr<Node>> kept;
    kept.reserve(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto found = instead.find(i);
        if (found == instead.end()) {
            kept.push_back(std::move(nodes[i]));
            continue;
        }
        for (Node& node : found->second)
            kept.push_back(std::make_unique<Node>(std::move(node)));
    }
    nodes = std::move(kept);
    nodes_named_ = unscanned;
}

const Tensor* Graph::initializer(const std::string& value) const {
    const auto found = initializers.find(value);
    return found == initializers.end() ? nullptr : &found->second;
}

const ValueInfo* Graph::find_input(std::string_view value) const { return find_value(inputs, value); }
const ValueInfo* Graph::find_output(std::string_view value) const { return find_value(outputs, value); }

std::optional<ValueInfo> Graph::info(const std::string& value) const {
    if (value.empty()) return std::nullopt;
    if (const ValueInfo* input = find_input(value)) return *input;
    if (const Tensor* tensor = initializer(value)) {
        ValueInfo known{value, tensor->type(), std::vector<Dimension>{}, tensor->doc, {}, ""};
        for (const std::int64_t size : tensor->shape())
            known.dims->push_back(Dimension::of(size));
        return known;
    }
    if (const ValueInfo* output = find_output(value)) return *output;
    const auto found = value_infos.find(value);
    return found == value_infos.end() ? std::nullopt : std::optional<ValueInfo>(found->second);
}

ValueInfo Graph::info_or_name(const std::string& value) const {
    if (auto known = info(value)) return std::move(*known);
    ValueInfo unknown;
    unknown.name = value;
    return unknown;
}

const Tensor* Graph::constant(const std::string& value) const {
    const Tensor* tensor = initializer(value);
    return tensor != nullptr && find_input(value) == nullptr ? tensor : nullptr;
}

std::string Graph::unique_name(std::string_view stem) const {
    if (!names_) names_ = std::make_shared<Names>();
    // Nodes pushed without add() or insert() are noticed by their number.
    if (nodes_named_ == unscanned || nodes.size() > nodes_named_) collect_names(*this, names_->taken);
    nodes_named_ = nodes.size();
    const auto is_free = [&](const std::string& candidate) {
        return !candidate.empty() && !initializers.contains(candidate) && !value_infos.contains(candidate) &&
               names_->taken.insert(candidate).second;
    };
    std::string candidate(stem);
    std::size_t& next = names_->next[candidate];
    if (next == 0 && is_free(candidate)) return candidate;
    do {
        candidate = std::string(stem) + "_" + std::to_string(++next);
    } while (!is_free(candidate));
    return candidate;
}

void Graph::share_names(const Graph& outer) const {
    if (!outer.names_ || outer.nodes_named_ == unscanned) {
        outer.names_ = outer.names_ ? outer.names_ : std::make_shared<Names>();
        collect_names(outer, outer.names_->taken);
        outer.nodes_named_ = outer.nodes.size();
    }
    names_ = outer.names_;
    nodes_named_ = unscanned;
}

void Graph::replace_uses(const std::string& from, const std::string& to) {
    if (from.empty() || from == to) return;
    for (const auto& node : nodes) {
        std::replace(node->inputs.begin(), node->inputs.end(), from, to);
        for_each_subgraph(*node, [&](Graph& inner) { rename_captures(inner, from, to); });
    }
}

Result<void> Graph::sort_topologically() {
    std::unordered_map<std::string, std::size_t> producers;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (const std::string& output : nodes[i]->outputs) {
            if (!output.empty()) producers.emplace(output, i);
        }
    }
    std::vector<std::vector<std::size_t>> readers(nodes.size());
    std::vector<std::size_t> waiting(nodes.size(), 0);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto read = [&](const std::string& name) {
            const auto found = producers.find(name);
            if (found == producers.end()) return;
            readers[found->second].push_back(i);
            ++waiting[i];
        };
        for (const std::string& input : nodes[i]->inputs)
            read(input);
        for (const std::string& captured : captured_names(*nodes[i]))
            read(captured);
    }
    // The least index that is ready comes first, so that a sorted graph stays as it is.
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (waiting[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    order.reserve(nodes.size());
    while (!ready.empty()) {
        const std::size_t i = ready.top();
        ready.pop();
        order.push_back(i);
        for (const std::size_t reader : readers[i]) {
            if (--waiting[reader] == 0) ready.push(reader);
        }
    }
    if (order.size() != nodes.size()) {
        const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](std::size_t n) { return n != 0; });
        const auto& node = *nodes[static_cast<std::size_t>(stuck - waiting.begin())];
        return Error{ErrorCode::invalid_argument, "the graph has a cycle", "node " + node.label(),
                     "a node reads, directly or through others, what it computes; export the model again"};
    }
    std::vector<std::unique_ptr<Node>> sorted;
    sorted.reserve(nodes.size());
    for (const std::size_t i : order)
        sorted.push_back(std::move(nodes[i]));
    nodes = std::move(sorted);
    return {};
}

std::int64_t Model::opset() const {
    const auto found = opsets.find("");
    return found == opsets.end() ? 0 : found->second;
}

const std::string* Model::find_metadata(std::string_view key) const {
    const auto found =
        std::find_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; });
    return found == metadata.end() ? nullptr : &found->second;
}

void Model::set_metadata(std::string key, std::string value) {
    for (auto& [existing, content] : metadata) {
        if (existing == key) {
            content = std::move(value);
            return;
        }
    }
    metadata.emplace_back(std::move(key), std::move(value));
}

} // namespace lathe
