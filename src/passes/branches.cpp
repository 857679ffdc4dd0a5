#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "graph/subgraphs.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// How many graphs define each name: this one, and all bodies within.
using Definitions = std::unordered_map<std::string, std::size_t>;

void count_definitions(const Graph& graph, Definitions& definitions) {
    for (const std::string& name : defined_names(graph))
        ++definitions[name];
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](const Graph& inner) { count_definitions(inner, definitions); });
}

/// The branch that is always taken; nullptr where that is not known, or the node is not as ONNX has it.
Graph* taken_branch(const Graph& graph, const PassContext& context, Node& node) {
    if (!node.is("If") || node.inputs.size() != 1) return nullptr;
    const Tensor* condition = known_constant(graph, context, node.input(0));
    if (condition == nullptr || condition->type() != DataType::boolean || condition->bytes().size() != 1)
        return nullptr;
    const char* const name = condition->bytes()[0] == std::byte{0} ? "else_branch" : "then_branch";
    Graph* branch = body_of(node, name);
    const bool fits = branch != nullptr && branch->inputs.empty() && branch->outputs.size() >= node.outputs.size();
    return fits ? branch : nullptr;
}

/// Names that others define too are changed: what was hidden in a body becomes visible to its new neighbours.
void give_own_names(Graph& branch, const Graph& graph, const Definitions& definitions) {
    branch.share_names(graph);
    for (const std::string& name : defined_names(branch)) {
        const auto count = definitions.find(name);
        if (count == definitions.end() || count->second < 2) continue;
        const std::string fresh = branch.unique_name(name);
        branch.replace_uses(name, fresh); // first: it follows nested bodies by the name that is still defined here
        rename_value(branch, name, fresh);
    }
}

/// Makes the branch compute `wanted` as its output number `index`.
void put_out(Graph& branch, std::size_t index, const std::string& wanted) {
    const std::string given = branch.outputs[index].name;
    const auto producer = std::ranges::find_if(
        branch.nodes, [&](const auto& node) { return std::ranges::find(node->outputs, given) != node->outputs.end(); });
    const auto named = [&](const ValueInfo& output) { return output.name == given; };
    // A constant, a value from outside, or one that is put out twice is copied.
    if (producer == branch.nodes.end() || std::ranges::count_if(branch.outputs, named) > 1) {
        Node copy = make_node("Identity", {given});
        copy.outputs = {wanted};
        branch.add(std::move(copy));
        branch.outputs[index].name = wanted;
        return;
    }
    branch.replace_uses(given, wanted);
    rename_value(branch, given, wanted);
}

template <class Value>
void append_all(std::vector<Value>& from, std::vector<Value>& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

} // namespace

//  true                        x
//   |                          |
//  If {then: Op(x), else: …}   Op         with the branch's own constants and names
//   |                   ==>    |
//   y                          y
//
// What an exporter wrote as a question about a rank or a size, which shapes have answered. Runtimes can't tell the rank
// of an If whose branches differ in it, and refuse what reads it.
Result<bool> inline_branches(Graph& graph, PassContext& context) {
    Definitions definitions;
    std::vector<std::unique_ptr<Node>> nodes;
    nodes.reserve(graph.nodes.size());
    std::size_t inlined = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        Graph* branch = taken_branch(graph, context, *graph.nodes[i]);
        if (branch == nullptr) {
            nodes.push_back(nullptr); // its place; filled below, since `graph` must stay whole until then
            continue;
        }
        if (inlined++ == 0) count_definitions(graph, definitions);
        give_own_names(*branch, graph, definitions);
        for (std::size_t output = 0; output < graph.nodes[i]->outputs.size(); ++output) {
            const std::string& wanted = graph.nodes[i]->outputs[output];
            if (!wanted.empty()) put_out(*branch, output, wanted);
        }
        append_all(branch->nodes, nodes);
        graph.initializers.merge(branch->initializers);
        graph.value_infos.merge(branch->value_infos);
        append_all(branch->opaque_sparse_initializers, graph.opaque_sparse_initializers);
        append_all(branch->opaque_quantization_annotations, graph.opaque_quantization_annotations);
        graph.nodes[i]->op_type.clear();
    }
    if (inlined == 0) return false;
    graph.remove_nodes([](const Node& node) { return node.op_type.empty(); });
    auto kept = graph.nodes.begin();
    for (auto& place : nodes) {
        if (!place) place = std::move(*kept++);
    }
    graph.nodes = std::move(nodes);
    context.rewrites += inlined;
    return true;
}

} // namespace lathe::passes
