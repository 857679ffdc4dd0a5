#include "backends/cuda/plan/rows.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "backends/cuda/plan/indexed_kind.hpp"
#include "graph/subgraphs.hpp"

namespace lathe::cuda {
namespace {

constexpr const char* bounded_key = "lathe.cuda.rows"; ///< of a node that counts
constexpr const char* room_key = "lathe.cuda.room";    ///< of the Gather behind it

bool has_key(const Node& node, const char* key) {
    return std::any_of(node.metadata.begin(), node.metadata.end(),
                       [&](const auto& entry) { return entry.first == key; });
}

std::optional<Shape> known_shape(const Graph& graph, const std::string& value) {
    auto shape = graph.info_or_name(value).shape();
    const bool known = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size > 0; });
    return known ? shape : std::nullopt;
}

std::optional<std::vector<std::int64_t>> integers(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    return tensor == nullptr ? std::nullopt : std::optional(tensor->to_int64s());
}

/// Axes given as an attribute or an input.
std::optional<std::vector<std::int64_t>> axes_of(const Graph& graph, const Node& node, std::size_t input) {
    const auto given = node.ints_or("axes", {});
    return given.empty() && !node.input(input).empty() ? integers(graph, node.input(input)) : given;
}

bool counts(const Node& node) { return node.is("NonMaxSuppression") || node.is("NonZero") || node.is("Compress"); }

/// What is taken number by number, with broadcasting.
bool by_numbers(const Node& node) {
    static const std::unordered_set<std::string_view> types{
        "Abs",  "Add",   "And",     "Cast",     "Ceil",      "Clip", "Div",  "Equal",          "Erf",
        "Exp",  "Floor", "Greater", "Identity", "LeakyRelu", "Less", "Log",  "LessOrEqual",    "Max",
        "Min",  "Mod",   "Mul",     "Neg",      "Not",       "Or",   "Pow",  "GreaterOrEqual", "Reciprocal",
        "Relu", "Round", "Sigmoid", "Sign",     "Sqrt",      "Sub",  "Tanh", "Where",          "Xor"};
    return node.domain.empty() && types.contains(node.op_type);
}

bool passes_rows_on(const Node& node) {
    static const std::unordered_set<std::string_view> types{"Concat", "Flatten", "Gather",    "GatherND", "Reshape",
                                                            "Slice",  "Squeeze", "Transpose", "Unsqueeze"};
    return by_numbers(node) || (node.domain.empty() && types.contains(node.op_type));
}

/// The first node behind `value` that would not leave its rows as they are; nullptr: none.
const Node* obstacle(const Graph& graph, const std::string& value) {
    std::unordered_set<std::string> open{value};
    for (const auto& node : graph.nodes) {
        const auto is_open = [&](const std::string& name) { return open.contains(name); };
        const auto captured = captured_names(*node);
        if (std::any_of(captured.begin(), captured.end(), is_open)) return node.get();
        if (std::none_of(node->inputs.begin(), node->inputs.end(), is_open)) continue;
        if (!passes_rows_on(*node)) return node.get();
        open.insert(node->outputs.begin(), node->outputs.end());
    }
    return nullptr;
}

/// The size that the node's result can have at most.
std::optional<Shape> most_of(const Graph& graph, const Node& node, std::string& why) {
    for (std::size_t i = 0; i < std::min<std::size_t>(2, node.inputs.size()); ++i) {
        if (known_shape(graph, node.input(i))) continue;
        why = "the shape of " + node.input(i) + " is not known";
        return std::nullopt;
    }
    const Shape x = *known_shape(graph, node.input(0));
    if (node.is("NonZero")) {
        if (x.empty()) {
            why = "it reads a scalar";
            return std::nullopt;
        }
        return Shape{static_cast<std::int64_t>(x.size()), element_count(x)};
    }
    const auto scores = known_shape(graph, node.input(1));
    const auto most = node.input(2).empty() ? std::nullopt : integers(graph, node.input(2));
    if (!most || most->size() != 1) {
        why = "its number of boxes a class is computed or missing";
    } else if ((*most)[0] <= 0) {
        why = "it picks no box of a class";
    } else if (x.size() != 3 || scores->size() != 3 || x[2] != 4 || (*scores)[0] != x[0] || (*scores)[2] != x[1]) {
        why = "its boxes and scores do not fit";
    } else if (x[1] > most_candidates) {
        why = std::to_string(x[1]) + " boxes are more than the " + std::to_string(most_candidates) + " that are taken";
    } else {
        return Shape{x[0] * (*scores)[1] * std::min((*most)[0], x[1]), 3};
    }
    return std::nullopt;
}

Node node_of(const char* type, std::vector<std::string> inputs, std::string output) {
    Node node;
    node.op_type = type;
    node.inputs = std::move(inputs);
    node.outputs = {std::move(output)};
    return node;
}

std::string constant(Graph& graph, const std::string& stem, const std::vector<std::int64_t>& numbers) {
    std::string name = graph.unique_name(stem);
    graph.initializers.emplace(
        name, Tensor::of_int64s(name, {static_cast<std::int64_t>(numbers.size())}, std::span(numbers)));
    return name;
}

//  x   condition            condition
//   \   /                   NonZero
//  Compress       ==>   x   Reshape [-1]        (without an axis x too)
//     |                  \  /
//     y                 Gather -> y
void compress_by_places(Graph& graph, std::size_t at) {
    const Node old = *graph.nodes[at];
    const std::string stem = old.output(0);
    const std::string flat = constant(graph, stem + "_flat", {-1});
    const std::string places = graph.unique_name(stem + "_places"), row = graph.unique_name(stem + "_row");
    std::string x = old.input(0);
    std::vector<Node> made{node_of("NonZero", {old.input(1)}, places), node_of("Reshape", {places, flat}, row)};
    if (old.attribute("axis") == nullptr) {
        x = graph.unique_name(stem + "_x");
        made.push_back(node_of("Reshape", {old.input(0), flat}, x));
    }
    made.push_back(node_of("Gather", {x, row}, old.output(0)));
    made.back().set("axis", old.int_or("axis", 0));
    made.front().name = old.name;
    *graph.nodes[at] = std::move(made.front());
    for (std::size_t i = 1; i < made.size(); ++i)
        graph.insert(at + i, std::move(made[i]));
}

struct Rows {
    std::int64_t axis = 0;
    std::string source;
    bool operator==(const Rows&) const = default;
};

class Follower {
public:
    explicit Follower(const Graph& graph) : graph_(graph) {}

    Result<std::vector<CutOutput>> run() {
        for (const auto& node : graph_.nodes) {
            if (has_key(*node, room_key)) {
                open_[node->output(0)] = {node->int_or("axis", 0), node->input(0)};
                continue;
            }
            const bool reads = std::any_of(node->inputs.begin(), node->inputs.end(),
                                           [&](const std::string& name) { return open_.contains(name); });
            if (!reads) continue;
            const auto made = through(*node);
            if (!made) {
                return Error{ErrorCode::out_of_range,
                             "how many rows " + node->input(0) + " has is known only once the model runs, and " +
                                 node->op_type + " would take its empty ones for a part of it",
                             node->label(),
                             "let what depends on it run on the CPU (--allow-fallback), or build the whole for the "
                             "CPU"};
            }
            open_[node->output(0)] = *made;
        }
        std::vector<CutOutput> cut;
        for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
            const auto found = open_.find(graph_.outputs[i].name);
            if (found != open_.end()) cut.push_back({i, found->second.axis, found->second.source});
        }
        return cut;
    }

private:
    Shape dims(const std::string& value) const { return graph_.info_or_name(value).shape().value_or(Shape{}); }
    const Rows* rows(const std::string& value) const {
        const auto found = open_.find(value);
        return found == open_.end() ? nullptr : &found->second;
    }

    /// How rows lie behind the node; nothing if they cannot be told from what is beside them.
    std::optional<Rows> through(const Node& node) const {
        if (by_numbers(node)) return broadcast(node);
        if (node.is("Concat")) return joined(node);
        if (node.is("Gather")) return gathered(node);
        const Rows* x = rows(node.input(0));
        if (node.is("GatherND")) {
            const Rows* indices = rows(node.input(1));
            const bool of_rows = x == nullptr && indices != nullptr && node.int_or("batch_dims", 0) == 0 &&
                                 indices->axis + 1 < static_cast<std::int64_t>(dims(node.input(1)).size());
            return of_rows ? std::optional(*indices) : std::nullopt;
        }
        if (x == nullptr) return std::nullopt; // what says how is open
        if (node.is("Reshape") || node.is("Flatten") || node.is("Squeeze") || node.is("Unsqueeze"))
            return reshaped(node, *x);
        if (node.is("Transpose")) {
            const auto rank = static_cast<std::int64_t>(dims(node.input(0)).size());
            const auto order = node.ints_or("perm", {});
            const auto found = std::find(order.begin(), order.end(), x->axis);
            const std::int64_t axis = order.empty() ? rank - 1 - x->axis : found - order.begin();
            return Rows{axis, x->source};
        }
        if (node.is("Slice")) return sliced(node, *x);
        return std::nullopt;
    }

    std::optional<Rows> broadcast(const Node& node) const {
        const Shape out = dims(node.output(0));
        const auto rank = static_cast<std::int64_t>(out.size());
        std::optional<Rows> made;
        for (const std::string& input : node.inputs) {
            const Rows* x = rows(input);
            if (x == nullptr) continue;
            const Rows moved{x->axis + rank - static_cast<std::int64_t>(dims(input).size()), x->source};
            if (made && *made != moved) return std::nullopt;
            made = moved;
        }
        for (const std::string& input : node.inputs) {
            if (input.empty() || rows(input) != nullptr) continue;
            const Shape own = dims(input);
            const std::int64_t at = made->axis - (rank - static_cast<std::int64_t>(own.size()));
            if (at >= 0 && own[static_cast<std::size_t>(at)] != 1) return std::nullopt;
        }
        return made;
    }

    std::optional<Rows> joined(const Node& node) const {
        const Rows* first = rows(node.input(0));
        const std::int64_t given = node.int_or("axis", 0);
        const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(dims(node.output(0)).size()) : given;
        if (first == nullptr || axis == first->axis) return std::nullopt;
        for (const std::string& input : node.inputs) {
            const Rows* x = rows(input);
            if (x == nullptr || *x != *first) return std::nullopt;
        }
        return *first;
    }

    std::optional<Rows> gathered(const Node& node) const {
        const Rows *x = rows(node.input(0)), *indices = rows(node.input(1));
        const std::int64_t given = node.int_or("axis", 0);
        const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(dims(node.input(0)).size()) : given;
        if (x == nullptr) return Rows{axis + indices->axis, indices->source};
        if (indices != nullptr || axis == x->axis) return std::nullopt;
        const auto added = static_cast<std::int64_t>(dims(node.input(1)).size()) - 1;
        return Rows{x->axis < axis ? x->axis : x->axis + added, x->source};
    }

    std::optional<Rows> reshaped(const Node& node, const Rows& x) const {
        const Shape from = dims(node.input(0)), to = dims(node.output(0));
        const auto at = from.begin() + x.axis;
        const std::int64_t before = element_count(Shape(from.begin(), at));
        std::optional<Rows> made;
        std::int64_t product = 1;
        for (std::size_t axis = 0; axis < to.size(); product *= to[axis++]) {
            if (product != before || to[axis] != *at) continue;
            if (made) return std::nullopt; // of one row: which axis it is cannot be told
            made = Rows{static_cast<std::int64_t>(axis), x.source};
        }
        return made;
    }

    /// From the first on, or along other axes.
    std::optional<Rows> sliced(const Node& node, const Rows& x) const {
        const auto rank = static_cast<std::int64_t>(dims(node.input(0)).size());
        const bool inputs = node.inputs.size() > 1;
        const auto starts = inputs ? integers(graph_, node.input(1)) : node.ints_or("starts", {});
        auto axes = axes_of(graph_, node, 3);
        const auto steps =
            node.input(4).empty() ? std::optional(std::vector<std::int64_t>()) : integers(graph_, node.input(4));
        const auto ends = inputs ? integers(graph_, node.input(2)) : node.ints_or("ends", {});
        if (!starts || !axes || !steps || !ends || starts->size() != ends->size()) return std::nullopt;
        if (axes->empty()) {
            axes->resize(starts->size());
            std::iota(axes->begin(), axes->end(), 0);
        }
        if (axes->size() != starts->size()) return std::nullopt;
        for (std::size_t i = 0; i < axes->size(); ++i) {
            const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
            const std::int64_t step = i < steps->size() ? (*steps)[i] : 1;
            if (axis == x.axis && ((*starts)[i] != 0 || (*ends)[i] < 0 || step != 1)) return std::nullopt;
        }
        return x;
    }

    const Graph& graph_;
    std::unordered_map<std::string, Rows> open_;
};

} // namespace

bool is_bounded(const Node& node) { return has_key(node, bounded_key); }

std::string unbounded_because(const Graph& graph, const Node& node) {
    if (!counts(node)) return "";
    std::string why;
    if (!node.is("Compress") && !most_of(graph, node, why)) return why;
    const Node* reader = obstacle(graph, node.output(0));
    if (reader == nullptr) return "";
    return (reader->name.empty() ? "" : reader->op_type + " ") + reader->label() + " needs to know how many there are";
}

//  NonMaxSuppression        NonMaxSuppression
//     |                        |              which the lowering gives room for the most
//     |               ==>     Gather {0, 1, ... most - 1}
//     |                        |              whose shape inference knows, and which no pass merges with another
//     y                        y
Result<bool> bound_rows(Model& model) {
    Graph& graph = model.graph;
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        Node& node = *graph.nodes[at];
        if (!counts(node) || is_bounded(node) || known_shape(graph, node.output(0))) continue;
        if (!unbounded_because(graph, node).empty()) continue;
        if (node.is("Compress")) {
            if (!known_shape(graph, node.input(0)) || !known_shape(graph, node.input(1))) continue;
            compress_by_places(graph, at);
            return true; // the shapes of what is new are not known yet
        }
        std::string why;
        const auto most = most_of(graph, node, why);
        const std::string result = node.output(0), raw = graph.unique_name(result + "_rows");
        node.outputs[0] = raw;
        node.metadata.emplace_back(bounded_key, "");
        const std::int64_t axis = node.is("NonZero") ? 1 : 0;
        std::vector<std::int64_t> places(static_cast<std::size_t>((*most)[static_cast<std::size_t>(axis)]));
        std::iota(places.begin(), places.end(), 0);
        Node room = node_of("Gather", {raw, constant(graph, result + "_room", places)}, result);
        room.set("axis", axis);
        room.metadata.emplace_back(room_key, "");
        graph.insert(at + 1, std::move(room));
        changed = true;
    }
    return changed;
}

Result<std::vector<CutOutput>> cut_outputs(Graph& graph) {
    LATHE_TRY(auto cut, Follower(graph).run());
    for (const auto& node : graph.nodes) {
        if (!has_key(*node, room_key)) continue;
        node->op_type = "Identity";
        node->inputs.resize(1);
        node->erase_attribute("axis");
    }
    return cut;
}

void cut_rows(std::span<std::byte> bytes, std::size_t element_bytes, Shape& shape, std::int64_t axis,
              std::int64_t count) {
    auto& size = shape[static_cast<std::size_t>(axis)];
    const std::int64_t kept = std::clamp<std::int64_t>(count, 0, size);
    if (kept == size) return;
    const auto middle = shape.begin() + axis;
    const auto outer = static_cast<std::size_t>(element_count(Shape(shape.begin(), middle)));
    const std::size_t inner = static_cast<std::size_t>(element_count(Shape(middle + 1, shape.end()))) * element_bytes;
    const std::size_t from = static_cast<std::size_t>(size) * inner, to = static_cast<std::size_t>(kept) * inner;
    for (std::size_t i = 1; i < outer && to != 0; ++i)
        std::memmove(bytes.data() + i * to, bytes.data() + i * from, to);
    size = kept;
}

} // namespace lathe::cuda
