#include "passes/sequence_loops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/subgraphs.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

constexpr std::int64_t most_turns = 64;
constexpr std::size_t most_nodes = 4096;

/// A Loop of so many turns.
struct Turns {
    const Graph* body;
    std::int64_t count;
};

bool is_true(const Tensor* constant) {
    return constant != nullptr && constant->type() == DataType::boolean && constant->bytes().size() == 1 &&
           constant->bytes()[0] != std::byte{0};
}

/// Whether the body always asks for another turn.
bool goes_on(const Graph& graph, const PassContext& context, const Graph& body) {
    const Uses uses(body);
    std::string value = body.outputs[0].name;
    for (int steps = 0; steps < 8; ++steps) {
        if (value == body.inputs[1].name) return true;
        const Node* node = uses.producer(value);
        if (node == nullptr) break;
        if (!node->is("Identity") && !node->is("Cast")) return false;
        value = node->input(0);
    }
    if (is_true(body.constant(value))) return true;
    return !defined_names(body).contains(value) && is_true(known_constant(graph, context, value));
}

std::optional<Turns> turns_of(const Graph& graph, const PassContext& context, const Node& node) {
    const Graph* body = node.is("Loop") ? body_of(node, "body") : nullptr;
    if (body == nullptr || node.inputs.size() < 2 || body->inputs.size() != node.inputs.size() ||
        body->outputs.size() + 1 != body->inputs.size() || node.outputs.size() + 1 != body->outputs.size())
        return std::nullopt; // none that also gathers what each turn gives
    const bool has_sequences =
        std::ranges::any_of(body->nodes, [](const auto& inner) { return works_on_sequences(*inner); });
    const Tensor* count = has_sequences ? known_constant(graph, context, node.input(0)) : nullptr;
    if (count == nullptr || count->type() != DataType::int64 || count->count() != 1) return std::nullopt;
    const std::int64_t turns = count->to_int64s()[0];
    if (turns < 1 || turns > most_turns || body->nodes.size() * static_cast<std::size_t>(turns) > most_nodes)
        return std::nullopt;
    if (!node.input(1).empty() && !is_true(known_constant(graph, context, node.input(1)))) return std::nullopt;
    const auto own = defined_names(*body);
    if (std::ranges::any_of(node.inputs, [&](const std::string& input) { return own.contains(input); }) ||
        !goes_on(graph, context, *body))
        return std::nullopt;
    return Turns{body, turns};
}

/// One turn as the branch of an If that is taken: what comes in is known by its names outside.
Graph turn_of(const Graph& body, std::int64_t turn, const std::vector<std::string>& states) {
    Graph branch = body;
    const auto give = [&](const std::string& name, Tensor value) {
        branch.initializers.insert_or_assign(name, value.renamed(name));
    };
    const auto line = [&](std::size_t input) {
        const auto& dims = body.inputs[input].dims;
        return dims && dims->size() == 1 ? Shape{1} : Shape{};
    };
    give(body.inputs[0].name, Tensor::of_int64s("", line(0), std::array{turn}));
    give(body.inputs[1].name, Tensor("", DataType::boolean, line(1), std::vector<std::byte>{std::byte{1}}));
    for (std::size_t state = 0; state < states.size(); ++state) {
        const std::string& inside = body.inputs[state + 2].name;
        branch.replace_uses(inside, states[state]);
        for (ValueInfo& output : branch.outputs)
            if (output.name == inside) output.name = states[state];
    }
    branch.inputs.clear();
    branch.outputs.erase(branch.outputs.begin()); // whether to go on
    return branch;
}

} // namespace

bool works_on_sequences(const Node& node) {
    return node.domain.empty() && node.op_type.find("Sequence") != std::string::npos;
}

//  s -> Loop(2 turns: s -> SequenceInsert(x) -> t) -> y   ==>   s -> SequenceInsert(x) -> SequenceInsert(x) -> y
Result<bool> unroll_sequence_loops(Graph& graph, PassContext& context) {
    std::map<std::size_t, std::vector<Node>> instead;
    std::string yes;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& loop = *graph.nodes[i];
        const auto turns = turns_of(graph, context, loop);
        if (!turns) continue;
        if (yes.empty())
            yes = add_constant(graph, "true", Tensor("", DataType::boolean, {}, std::vector<std::byte>{std::byte{1}}));
        std::vector<std::string> states(loop.inputs.begin() + 2, loop.inputs.end());
        for (std::int64_t turn = 0; turn < turns->count; ++turn) {
            Node taken = make_node("If", {yes});
            taken.name = loop.name;
            taken.set("then_branch", GraphBox(turn_of(*turns->body, turn, states)));
            for (std::size_t state = 0; state < states.size(); ++state) {
                const std::string& last = loop.output(state);
                states[state] = turn + 1 == turns->count ? last : graph.unique_name(last + "_turn");
            }
            taken.outputs = states;
            instead[i].push_back(std::move(taken));
        }
    }
    if (instead.empty()) return false;
    graph.replace_nodes(std::move(instead));
    return inline_branches(graph, context);
}

} // namespace lathe::passes
