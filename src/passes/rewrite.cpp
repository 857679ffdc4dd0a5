#include "passes/rewrite.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "graph/subgraphs.hpp"
#include "support/half.hpp"

namespace lathe {
namespace {

/// Values whose readers or producers changed in this sweep. Constants are left out: nothing about them changes, and
/// they are shared by many.
class Touched {
public:
    explicit Touched(const Graph& graph) : graph_(graph) {}

    void add(const Match& match) {
        nodes_.insert(match.matched.begin(), match.matched.end());
        for (const std::string& name : names_of(match))
            add(name);
    }

    void add(const std::string& name) {
        if (!name.empty() && graph_.initializer(name) == nullptr) values_.insert(name);
    }

    static std::vector<std::string> names_of(const Match& match) {
        std::vector<std::string> names;
        for (const Node* node : match.matched) {
            names.insert(names.end(), node->inputs.begin(), node->inputs.end());
            names.insert(names.end(), node->outputs.begin(), node->outputs.end());
        }
        return names;
    }

    bool concerns(const Match& match) const {
        return std::any_of(match.matched.begin(), match.matched.end(), [&](const Node* node) {
            const auto is_touched = [&](const std::string& name) { return values_.contains(name); };
            return nodes_.contains(node) || std::any_of(node->inputs.begin(), node->inputs.end(), is_touched) ||
                   std::any_of(node->outputs.begin(), node->outputs.end(), is_touched);
        });
    }

private:
    const Graph& graph_;
    std::unordered_set<const Node*> nodes_;
    std::unordered_set<std::string> values_;
};

std::size_t sweep(Graph& graph, PassContext& context, std::span<const Rule> rules) {
    const Uses uses(graph);
    Touched touched(graph);
    std::size_t changes = 0;
    std::vector<Node*> nodes;
    nodes.reserve(graph.nodes.size());
    for (const auto& node : graph.nodes)
        nodes.push_back(node.get());
    for (Node* node : nodes) {
        for (const Rule& rule : rules) {
            const auto match = rule.pattern.match(*node, graph, uses);
            if (!match || touched.concerns(*match)) continue;
            const auto names_before = Touched::names_of(*match);
            if (!rule.apply({graph, uses, context, *node, *match})) continue;
            for (const std::string& name : names_before)
                touched.add(name);
            touched.add(*match); // what the root reads now, too
            ++changes;
            break;
        }
    }
    return changes;
}

} // namespace

Result<bool> rewrite(Graph& graph, PassContext& context, std::span<const Rule> rules) {
    // Rules only ever shorten or canonicalise; the bound turns a mistake in one into an error instead of a hang.
    const std::size_t bound = 100 + 4 * graph.nodes.size();
    for (std::size_t i = 0; i < bound; ++i) {
        const std::size_t changes = sweep(graph, context, rules);
        context.rewrites += changes;
        if (changes == 0) return i > 0;
        remove_dead(graph);
    }
    return Error{ErrorCode::internal, "rewriting did not come to an end", graph.name, "please report this"};
}

bool bypass(const Site& site, const std::string& to) {
    const std::string value = site.root.output(0);
    if (value.empty() || value == to) return false;
    if (!site.graph.is_output(value)) {
        site.graph.replace_uses(value, to);
        return true;
    }
    Node* producer = site.uses.producer(to);
    if (producer == nullptr || site.graph.is_output(to)) return false;
    const auto place = std::find(producer->outputs.begin(), producer->outputs.end(), to);
    if (place == producer->outputs.end()) return false;
    site.root.outputs[0] = site.graph.unique_name(value);
    *place = value;
    site.graph.replace_uses(to, value);
    site.graph.value_infos.erase(to);
    return true;
}

void become(Node& root, Node replacement, const Node& origin) {
    replacement.outputs = root.outputs;
    replacement.name = origin.name;
    replacement.doc = origin.doc;
    replacement.metadata = origin.metadata;
    root = std::move(replacement);
}

void insert_before(const Site& site, Node node, std::optional<ValueInfo> info) {
    insert_before(site, site.root, std::move(node), std::move(info));
}

void insert_before(const Site& site, const Node& place, Node node, std::optional<ValueInfo> info) {
    if (info) {
        info->name = node.outputs[0];
        site.graph.value_infos.insert_or_assign(node.outputs[0], std::move(*info));
    }
    const auto& nodes = site.graph.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.get() == &place; });
    site.graph.insert(static_cast<std::size_t>(at - nodes.begin()), std::move(node));
}

void move_shape_readers(const Site& site, const std::string& from, const std::string& to) {
    for (Node* reader : site.uses.consumers(from))
        if (reader->is("Shape") && reader->input(0) == from) reader->inputs[0] = to;
}

Node make_node(std::string op_type, std::vector<std::string> inputs) {
    Node node;
    node.op_type = std::move(op_type);
    node.inputs = std::move(inputs);
    return node;
}

Node reshape_node(Graph& graph, const std::string& value, const Shape& to) {
    const Tensor shape = Tensor::of_int64s("", {static_cast<std::int64_t>(to.size())}, to);
    return make_node("Reshape", {value, add_constant(graph, "shape", shape)});
}

std::string reshaped(const Site& site, const std::string& value, const Shape& to) {
    return add_before(site, reshape_node(site.graph, value, to), type_of(site.graph, value), to);
}

std::string add_before(const Site& site, Node node, DataType type, const Shape& dims, std::string name) {
    if (name.empty()) name = site.graph.unique_name(site.root.output(0) + "/" + node.op_type);
    node.outputs.resize(std::max<std::size_t>(1, node.outputs.size())); // further ones are named by who adds it
    node.outputs[0] = name;
    node.name = name;
    ValueInfo info;
    info.type = type;
    info.dims.emplace();
    for (const std::int64_t size : dims)
        info.dims->push_back(Dimension::of(size));
    insert_before(site, std::move(node), std::move(info));
    return name;
}

std::string add_before(const Site& site, Node node, ValueInfo info) {
    node.name = site.graph.unique_name(site.root.output(0) + "/" + node.op_type);
    node.outputs = {node.name};
    std::string name = node.name;
    insert_before(site, std::move(node), std::move(info));
    return name;
}

std::string add_constant(Graph& graph, const std::string& stem, const Tensor& tensor) {
    std::string name = graph.unique_name(stem);
    graph.initializers.emplace(name, tensor.renamed(name));
    return name;
}

std::string add_scalar(Graph& graph, const std::string& stem, DataType type, float value) {
    std::vector<std::byte> bytes(byte_size(type, 1));
    const auto store = [&](auto number) { std::memcpy(bytes.data(), &number, sizeof(number)); };
    switch (type) {
        case DataType::float64: store(static_cast<double>(value)); break;
        case DataType::float16: store(half_from_float(value)); break;
        case DataType::bfloat16: store(bfloat16_from_float(value)); break;
        default: store(value); break;
    }
    return add_constant(graph, stem, Tensor("", type, {}, bytes));
}

bool replace_each(Graph& graph, const std::function<std::vector<Node>(const Node&)>& instead) {
    std::map<std::size_t, std::vector<Node>> replacements;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        std::vector<Node> nodes = instead(*graph.nodes[i]);
        for (Node& node : nodes)
            if (node.name.empty()) node.name = graph.nodes[i]->name;
        if (!nodes.empty()) replacements.emplace(i, std::move(nodes));
    }
    if (replacements.empty()) return false;
    graph.replace_nodes(std::move(replacements));
    return true;
}

void rename_value(Graph& graph, const std::string& from, const std::string& to) {
    for (auto* values : {&graph.inputs, &graph.outputs}) {
        for (ValueInfo& value : *values) {
            if (value.name == from) value.name = to;
        }
    }
    for (const auto& node : graph.nodes)
        std::replace(node->outputs.begin(), node->outputs.end(), from, to);
    if (auto entry = graph.initializers.extract(from)) {
        entry.key() = to;
        entry.mapped().name = to;
        graph.initializers.insert(std::move(entry));
    }
    graph.value_infos.erase(from);
}

std::size_t remove_dead(Graph& graph) {
    std::unordered_map<std::string, std::size_t> reads;
    for (const ValueInfo& output : graph.outputs)
        ++reads[output.name];
    const auto each_read = [](const Node& node, auto visit) {
        for (const std::string& name : node.inputs)
            visit(name);
        if (has_subgraph(node)) {
            for (const std::string& name : captured_names(node))
                visit(name);
        }
    };
    for (const auto& node : graph.nodes)
        each_read(*node, [&](const std::string& name) { ++reads[name]; });
    const auto is_dead = [&](const Node& node) {
        return !node.outputs.empty() && std::all_of(node.outputs.begin(), node.outputs.end(),
                                                    [&](const auto& name) { return name.empty() || reads[name] == 0; });
    };
    // Backwards, so that what only dead nodes read is seen to be dead in the same pass.
    std::size_t removed = 0;
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        if (!is_dead(*graph.nodes[i])) continue;
        each_read(*graph.nodes[i], [&](const std::string& name) { --reads[name]; });
        graph.nodes[i].reset();
        ++removed;
    }
    std::erase(graph.nodes, nullptr);
    removed += std::erase_if(graph.initializers, [&](const auto& entry) {
        return reads[entry.first] == 0 && graph.find_input(entry.first) == nullptr;
    });
    if (removed != 0) {
        const auto defined = defined_names(graph);
        std::erase_if(graph.value_infos, [&](const auto& entry) { return !defined.contains(entry.first); });
    }
    return removed;
}

std::optional<float> uniform_value(const Tensor& tensor) {
    const auto values = tensor.to_floats();
    if (values.empty()) return std::nullopt;
    const bool uniform = std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; });
    return uniform ? std::optional(values[0]) : std::nullopt;
}

std::optional<Tensor> finite_tensor(DataType type, Shape shape, const std::vector<float>& values) {
    std::vector<std::uint16_t> narrow;
    for (const float value : values) {
        if (!std::isfinite(value)) return std::nullopt;
        if (type == DataType::float16) narrow.push_back(half_from_float(value));
        if (type == DataType::bfloat16) narrow.push_back(bfloat16_from_float(value));
    }
    if (type == DataType::float32) return Tensor::of_floats("", std::move(shape), values);
    if (type != DataType::float16 && type != DataType::bfloat16) return std::nullopt;
    const auto tensor = Tensor::of<std::uint16_t>("", type, std::move(shape), narrow);
    const auto rounded = tensor.to_floats();
    const bool finite = std::all_of(rounded.begin(), rounded.end(), [](float v) { return std::isfinite(v); });
    return finite ? std::optional(tensor) : std::nullopt;
}

bool keeps_shape(const Graph& graph, const std::string& value, const Tensor& constant) {
    const auto info = graph.info(value);
    const auto shape = info ? info->shape() : std::nullopt;
    if (!shape) return constant.shape().empty();
    if (constant.shape().size() > shape->size()) return false;
    const std::size_t offset = shape->size() - constant.shape().size();
    for (std::size_t i = 0; i < constant.shape().size(); ++i) {
        if (constant.shape()[i] != 1 && constant.shape()[i] != (*shape)[offset + i]) return false;
    }
    return true;
}

bool same_shape(const Graph& graph, const std::string& a, const std::string& b) {
    const auto x = graph.info(a);
    const auto y = graph.info(b);
    if (!x || !y || !x->dims || !y->dims || x->dims->size() != y->dims->size()) return false;
    return std::equal(x->dims->begin(), x->dims->end(), y->dims->begin(), same_dimension);
}

bool same_dimension(const Dimension& a, const Dimension& b) {
    if (a.size && b.size) return *a.size == *b.size;
    return !a.size && !b.size && !a.symbol.empty() && a.symbol == b.symbol;
}

DataType type_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->type : DataType::undefined;
}

bool gates_hard_swish(const Node& node) {
    return node.is("HardSigmoid") && std::abs(node.float_or("alpha", 0.2F) * 6 - 1) < 1e-6F &&
           node.float_or("beta", 0.5F) == 0.5F;
}

std::optional<Shape> known_sizes(const Graph& graph, const std::string& value) {
    const auto shape = graph.info_or_name(value).shape();
    const bool whole = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t n) { return n > 0; });
    return whole ? shape : std::nullopt;
}

std::optional<std::int64_t> constant_integer(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    if (tensor == nullptr || tensor->count() != 1) return std::nullopt;
    const auto values = tensor->to_int64s(); // none of a tensor of floats
    return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

bool is_size_of(const Graph& graph, const Uses& uses, const std::string& value, const std::string& data,
                std::size_t axis) {
    const Node* gather = uses.producer(value);
    if (gather == nullptr || !gather->is("Gather")) return false;
    const auto part = part_of_shape(graph, uses, value);
    return part && part->first == axis && (part->value == data || same_shape(graph, part->value, data));
}

std::optional<PartOfShape> part_of_shape(const Graph& graph, const Uses& uses, const std::string& vector) {
    const Node* node = uses.producer(vector);
    if (node == nullptr) return std::nullopt;
    if (node->is("Unsqueeze")) node = uses.producer(node->input(0));
    if (node == nullptr) return std::nullopt;
    if (node->is("Gather")) {
        const auto at = constant_integer(graph, node->input(1));
        node = uses.producer(node->input(0));
        if (!at || *at < 0 || node == nullptr || !node->is("Shape") || !node->attributes.empty()) return std::nullopt;
        return PartOfShape{node->input(0), static_cast<std::size_t>(*at), static_cast<std::size_t>(*at) + 1};
    }
    const Node* shape = node->is("Slice") ? uses.producer(node->input(0)) : node;
    if (shape == nullptr || !shape->is("Shape")) return std::nullopt;
    const auto dims = graph.info_or_name(shape->input(0)).shape();
    if (!dims) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(dims->size());
    std::int64_t first = 0, end = 0;
    if (node->is("Slice")) {
        const auto starts = constant_integers(graph, *node, "starts", 1),
                   ends = constant_integers(graph, *node, "ends", 2);
        const auto axes = constant_integers(graph, *node, "axes", 3),
                   steps = constant_integers(graph, *node, "steps", 4);
        if (!shape->attributes.empty() || !starts || !ends || starts->size() != 1 || ends->size() != 1 ||
            (axes && *axes != std::vector<std::int64_t>{0}) || (steps && *steps != std::vector<std::int64_t>{1}) ||
            (!axes && !node->input(3).empty()) || (!steps && !node->input(4).empty()))
            return std::nullopt;
        first = (*starts)[0];
        end = (*ends)[0];
    } else {
        first = node->int_or("start", 0);
        end = node->int_or("end", rank);
    }
    const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    first = place(first);
    end = place(end);
    if (end <= first) return std::nullopt;
    return PartOfShape{shape->input(0), static_cast<std::size_t>(first), static_cast<std::size_t>(end)};
}

std::size_t own_sizes(const Graph& graph, const Uses& uses, const std::string& vector, const std::string& value) {
    const Node* joined = uses.producer(vector);
    if (joined == nullptr || !joined->is("Concat")) return 0;
    const auto part = part_of_shape(graph, uses, joined->input(0));
    return part && part->value == value && part->first == 0 ? part->end : 0;
}

std::optional<std::vector<std::int64_t>> constant_integers(const Graph& graph, const Node& node,
                                                           std::string_view attribute, std::size_t index) {
    if (!node.input(index).empty()) {
        const Tensor* tensor = graph.constant(node.input(index));
        if (tensor == nullptr) return std::nullopt;
        return tensor->to_int64s();
    }
    if (node.attribute(attribute) == nullptr) return std::nullopt;
    return node.ints_or(attribute, {});
}

std::optional<std::vector<std::int64_t>> constant_pads(const Graph& graph, const Node& pad, std::size_t rank,
                                                       std::int64_t opset) {
    const auto given = opset < 11 ? std::optional(pad.ints_or("pads", {})) : constant_integers(graph, pad, "", 1);
    if (!given) return std::nullopt;
    std::vector<std::int64_t> axes;
    if (!pad.input(3).empty()) {
        const Tensor* tensor = graph.constant(pad.input(3));
        if (tensor == nullptr) return std::nullopt;
        axes = tensor->to_int64s();
    } else {
        for (std::size_t i = 0; i < rank; ++i)
            axes.push_back(static_cast<std::int64_t>(i));
    }
    if (given->size() != 2 * axes.size()) return std::nullopt;
    std::vector<std::int64_t> pads(2 * rank, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i];
        if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
        pads[static_cast<std::size_t>(axis)] = (*given)[i];
        pads[static_cast<std::size_t>(axis) + rank] = (*given)[i + axes.size()];
    }
    return pads;
}

const Tensor* known_constant(const Graph& graph, const PassContext& context, const std::string& value) {
    if (const Tensor* own = graph.constant(value)) return own;
    const Graph* inner = &graph;
    for (auto outer = context.around.rbegin(); outer != context.around.rend(); ++outer) {
        const Tensor* found = (*outer)->constant(value);
        if (found != nullptr) return defined_names(*inner).contains(value) ? nullptr : found;
        inner = *outer;
    }
    return nullptr;
}

} // namespace lathe
