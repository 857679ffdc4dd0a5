#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/evaluate.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

using Axes = std::vector<std::int64_t>;

/// The one permutation that does what `first` and then `second` do. Nothing where they do not fit each other, or one is
/// not said: then the axes are reversed, which needs the rank; exporters always write it.
std::optional<Axes> composed(const Axes& first, const Axes& second) {
    if (first.empty() || first.size() != second.size()) return std::nullopt;
    Axes both;
    for (const std::int64_t axis : second) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(first.size())) return std::nullopt;
        both.push_back(first[static_cast<std::size_t>(axis)]);
    }
    return both;
}

/// Whether a value that is moved by `first` and then by `second` lies as it was.
bool undo_each_other(const Axes& first, const Axes& second) {
    Axes as_it_was(second.size());
    std::iota(as_it_was.begin(), as_it_was.end(), std::int64_t{0});
    return composed(first, second) == as_it_was;
}

bool merge_two_transposes(const Site& site) {
    Node& outer = site.root;
    const Node& inner = site.match.node("inner");
    const auto both = composed(inner.ints_or("perm", {}), outer.ints_or("perm", {}));
    if (!both) return false;
    outer.inputs[0] = inner.inputs[0];
    outer.set("perm", *both);
    return true;
}

/// Which input of the node it computes on element by element, all others being constants; nothing if it does not.
std::optional<std::size_t> moving_input(const Graph& graph, const Node& node) {
    static const std::unordered_set<std::string> alone{"Relu",      "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid",
                                                       "HardSwish", "Elu",       "Neg",     "Abs",  "Exp",
                                                       "Erf",       "Sqrt",      "Softplus"};
    if (!node.domain.empty() || node.outputs.size() != 1) return std::nullopt;
    const auto is_constant = [&](std::size_t i) {
        return node.input(i).empty() || graph.constant(node.input(i)) != nullptr;
    };
    if (alone.contains(node.op_type) || (node.is("Clip") && is_constant(1) && is_constant(2))) return 0;
    if (node.inputs.size() != 2) return std::nullopt;
    if (node.is("Add") || node.is("Mul") || node.is("Sub") || node.is("Div") || node.is("Max") || node.is("Min")) {
        if (is_constant(1)) return 0;
        if (is_constant(0)) return 1;
    }
    if (node.is("PRelu") && is_constant(1)) return 0;
    return std::nullopt;
}

/// A constant that is computed with element by element, as it lies beside a value that is moved by `perm`; nothing
/// where it would change the value's shape.
std::optional<Tensor> moved_constant(const Graph& graph, const std::string& value, const Tensor& constant,
                                     const Axes& perm) {
    if (element_count(constant.shape()) == 1 && constant.shape().size() <= perm.size()) return constant;
    if (constant.shape().size() > perm.size() || !keeps_shape(graph, value, constant)) return std::nullopt;
    Shape whole(perm.size() - constant.shape().size(), 1);
    whole.insert(whole.end(), constant.shape().begin(), constant.shape().end());
    const Tensor reshaped = constant.reshaped(std::move(whole));
    Node move = make_node("Transpose", {"constant"});
    move.set("perm", perm);
    move.outputs = {"moved"};
    const Tensor* given[] = {&reshaped};
    auto moved = evaluate(move, given, {13, std::size_t{1} << 30});
    return moved ? std::optional(std::move(moved->front())) : std::nullopt;
}

/// A node that computes element by element between two Transposes: the input that they move, and its constants as they
/// lie without them.
struct Between {
    Node* node = nullptr;
    std::size_t moving = 0;
    std::map<std::size_t, Tensor> constants{}; ///< by input
};

/// What stands between a Transpose and the one that undoes it, each node read by the next alone, the last first.
struct Sandwich {
    Node* inner = nullptr;
    std::vector<Between> chain{};
};

/// Fills in the constants; false where one cannot be moved.
bool move_constants(const Graph& graph, Between& between, const Axes& perm) {
    const Node& node = *between.node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Tensor* constant = i == between.moving || node.is("Clip") ? nullptr : graph.constant(node.input(i));
        if (constant == nullptr) continue;
        auto moved = moved_constant(graph, node.input(between.moving), *constant, perm);
        if (!moved) return false;
        between.constants.emplace(i, *std::move(moved));
    }
    return true;
}

std::optional<Sandwich> find_sandwich(const Graph& graph, const Uses& uses, const Node& outer) {
    Sandwich found;
    const Axes perm = outer.ints_or("perm", {});
    std::string value = outer.input(0);
    while (true) {
        Node* node = uses.producer(value);
        if (node == nullptr) return std::nullopt;
        if (node->is("Transpose")) {
            found.inner = node;
            break;
        }
        const auto moving = moving_input(graph, *node);
        if (!moving || uses.use_count(value) != 1) return std::nullopt;
        found.chain.push_back({node, *moving});
        value = node->input(*moving);
    }
    if (found.chain.empty() || !undo_each_other(found.inner->ints_or("perm", {}), perm)) return std::nullopt;
    const bool moved =
        std::ranges::all_of(found.chain, [&](Between& each) { return move_constants(graph, each, perm); });
    return moved ? std::optional(std::move(found)) : std::nullopt;
}

std::size_t remove_sandwiches(Graph& graph) {
    const Uses uses(graph);
    std::unordered_set<const Node*> touched;
    std::size_t count = 0;
    std::vector<Node*> nodes;
    for (const auto& node : graph.nodes)
        nodes.push_back(node.get());
    for (Node* outer : nodes) {
        if (!outer->is("Transpose") || touched.contains(outer)) continue;
        const auto found = find_sandwich(graph, uses, *outer);
        if (!found || touched.contains(found->inner) ||
            std::ranges::any_of(found->chain, [&](const Between& each) { return touched.contains(each.node); }))
            continue;
        for (const Between& each : found->chain) {
            for (const auto& [input, constant] : each.constants)
                each.node->inputs[input] = add_constant(graph, each.node->input(input), constant);
            graph.value_infos.erase(each.node->output(0)); // of the shape that it had
            touched.insert(each.node);
        }
        const Between& first = found->chain.back();
        first.node->inputs[first.moving] = found->inner->input(0);
        // The last node takes the Transpose's place.
        const Node& last = *found->chain.front().node;
        become(*outer, last, last);
        touched.insert({outer, found->inner});
        ++count;
    }
    if (count > 0) remove_dead(graph);
    return count;
}

bool merge_two_reshapes(const Site& site) {
    const auto target = constant_integers(site.graph, site.root, "", 1);
    // A 0 copies a dimension of what it reads, which is no longer the same.
    const bool copies = target && std::find(target->begin(), target->end(), 0) != target->end();
    if (!target || copies) return false;
    site.root.inputs[0] = site.match.node("inner").inputs[0];
    return true;
}

bool undo_reshapes(const Site& site) {
    const Node& asked = site.match.node("asked");
    if (asked.int_or("start", 0) != 0 || asked.attribute("end") != nullptr) return false;
    return bypass(site, site.match.value("x"));
}

} // namespace

//  x                        x
//  |                        |
//  Transpose(p)             Transpose(q after p)     removed by remove-no-ops if nothing moves
//  |               ==>      |
//  Transpose(q)             y
//  |
//  y
//
// Also where only elements are computed with between the two, and q undoes p: both go, and constants between are moved.
Result<bool> merge_transposes(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Transpose", {Pattern::op("Transpose", {Pattern::any()}, "inner")}), merge_two_transposes}};
    LATHE_TRY(bool changed, rewrite(graph, context, rules));
    while (const std::size_t count = remove_sandwiches(graph)) {
        context.rewrites += count;
        changed = true;
    }
    return changed;
}

//  x                                           x
//  |                                           |
//  Reshape | Flatten | Squeeze | Unsqueeze     Reshape(b)
//  |                                     ==>   |
//  Reshape(b)                                  y
//  |
//  y
//
// Reshape(y, Shape(x)) behind what made y of x, or of x itself, is x: PyTorch's reshape_as.
Result<bool> merge_reshapes(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Reshape", {Pattern::op("Reshape|Flatten|Squeeze|Unsqueeze", {Pattern::any()}, "inner"),
                                 Pattern::constant("shape")}),
         merge_two_reshapes},
        {Pattern::op("Reshape", {Pattern::op("Reshape|Flatten|Squeeze|Unsqueeze", {Pattern::any("x")}),
                                 Pattern::op("Shape", {Pattern::any("x")}, "asked")}),
         undo_reshapes},
        {Pattern::op("Reshape", {Pattern::any("x"), Pattern::op("Shape", {Pattern::any("x")}, "asked")}),
         undo_reshapes}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
