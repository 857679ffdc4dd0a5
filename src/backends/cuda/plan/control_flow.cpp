#include "backends/cuda/plan/control_flow.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/subgraphs.hpp"

namespace lathe::cuda {
namespace {

using Names = std::unordered_map<std::string, std::string>;

/// Nodes that both branches of an If may have together for both to be computed.
constexpr std::size_t most_selected_nodes = 512;

std::size_t nodes_of(const Graph& graph) {
    std::size_t count = graph.nodes.size();
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](const Graph& inner) { count += nodes_of(inner); });
    return count;
}

std::optional<std::int64_t> integer(const Tensor* tensor) {
    if (tensor == nullptr || tensor->count() != 1) return std::nullopt;
    const auto values = tensor->to_int64s();
    return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

const Node* producer_in(const Graph& graph, const std::string& value) {
    for (const auto& node : graph.nodes)
        if (std::find(node->outputs.begin(), node->outputs.end(), value) != node->outputs.end()) return node.get();
    return nullptr;
}

/// Whether the body's condition is true whenever it was true before.
bool stays_true(const Graph& outer, const Graph& body, std::string value, const std::string& before) {
    for (std::size_t steps = 0; steps <= body.nodes.size(); ++steps) {
        if (value == before) return true;
        if (const Tensor* constant = body.initializer(value)) return integer(constant) == 1;
        const Node* node = producer_in(body, value);
        if (node == nullptr) return integer(outer.constant(value)) == 1;
        if (node->is("Constant")) {
            const Attribute* held = node->attribute("value");
            const auto* tensor = held == nullptr ? nullptr : std::get_if<Tensor>(&held->value);
            return integer(tensor) == 1;
        }
        if (!node->is("Identity") && !node->is("Cast")) return false;
        value = node->input(0);
    }
    return false;
}

bool is_random(const Node& node) {
    return node.op_type.starts_with("Random") || node.is("Bernoulli") || node.is("Multinomial");
}

std::optional<Shape> known_shape(const ValueInfo& info) {
    auto shape = info.shape();
    const bool known = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size >= 0; });
    return known ? shape : std::nullopt;
}

/// What is to be done with a node that has bodies.
struct Decision {
    std::string why; ///< it is left
    std::int64_t rounds = 0;
    std::size_t nodes = 0;         ///< that a loop becomes
    const Graph* branch = nullptr; ///< of an If: the one that is taken; nullptr: both
};

Decision left(std::string why) {
    Decision decision;
    decision.why = std::move(why);
    return decision;
}

std::string too_long(std::int64_t rounds, std::size_t nodes) {
    return "its " + std::to_string(rounds) + " rounds of " + std::to_string(nodes) +
           " nodes each, written out, pass the limit of " + std::to_string(most_written_nodes) + " nodes";
}

bool fits(const Graph& graph, std::int64_t rounds, std::size_t nodes) {
    return rounds <= static_cast<std::int64_t>(most_written_nodes) &&
           graph.nodes.size() + static_cast<std::size_t>(rounds) * nodes <= most_written_nodes;
}

/// Whether the branch's value is known to the outer graph and, if it is a value from outside, what it is.
std::optional<ValueInfo> result_of(const Graph& outer, const Graph& branch, std::size_t i) {
    const ValueInfo& output = branch.outputs[i];
    if (known_shape(output)) return output;
    if (const Tensor* constant = branch.initializer(output.name)) {
        ValueInfo info;
        info.type = constant->type();
        info.dims.emplace();
        for (const std::int64_t size : constant->shape())
            info.dims->push_back(Dimension::of(size));
        return info;
    }
    if (auto inside = branch.info(output.name); inside && known_shape(*inside)) return inside;
    return outer.info(output.name);
}

Decision decide_if(const Graph& graph, const Node& node) {
    const Graph* taken = body_of(node, "then_branch");
    const Graph* other = body_of(node, "else_branch");
    if (taken == nullptr || other == nullptr) return left("a branch is missing");
    if (const auto condition = integer(graph.constant(node.input(0)))) {
        Decision decision;
        decision.branch = *condition != 0 ? taken : other;
        if (decision.branch->outputs.size() != node.outputs.size()) return left("its branch has other outputs");
        return decision;
    }
    const std::string open = "its condition " + node.input(0) + " is known only once the model runs, and ";
    const auto condition = graph.info_or_name(node.input(0)).shape();
    if (!condition || condition->size() > 1) return left(open + "its shape is not known");
    if (nodes_of(*taken) + nodes_of(*other) > most_selected_nodes)
        return left(open + "its branches have more than " + std::to_string(most_selected_nodes) + " nodes");
    for (const Graph* branch : {taken, other}) {
        for (const auto& inner : branch->nodes)
            if (is_random(*inner)) return left(open + "a branch is random");
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (i >= taken->outputs.size() || i >= other->outputs.size()) return left("a branch has other outputs");
        const auto a = result_of(graph, *taken, i);
        const auto b = result_of(graph, *other, i);
        const auto shape = a ? known_shape(*a) : std::nullopt;
        const bool same = a && b && shape && shape == known_shape(*b) && a->type == b->type && a->opaque_type.empty() &&
                          b->opaque_type.empty();
        if (!same || shape->size() < condition->size())
            return left(open + "its branches give " + node.output(i) + " in different or unknown shapes");
    }
    return {};
}

Decision decide_loop(const Graph& graph, const Node& node) {
    const Graph* body = body_of(node, "body");
    if (body == nullptr || body->inputs.size() < 2 || node.inputs.size() < 2) return left("its body is not as ONNX's");
    if (body->inputs.size() != node.inputs.size() || body->outputs.empty() ||
        body->outputs.size() != node.outputs.size() + 1 || body->outputs.size() + 1 < body->inputs.size())
        return left("its body is not as ONNX's");
    Decision decision;
    if (!node.input(1).empty()) {
        const auto begins = integer(graph.constant(node.input(1)));
        if (!begins) return left("its condition " + node.input(1) + " is known only once the model runs");
        if (*begins == 0) decision.rounds = -1;
    }
    if (decision.rounds == 0) {
        if (node.input(0).empty()) return left("it has no number of rounds, its condition alone ends it");
        const auto rounds = integer(graph.constant(node.input(0)));
        if (!rounds) return left("its number of rounds " + node.input(0) + " is known only once the model runs");
        if (*rounds > 1 && !stays_true(graph, *body, body->outputs[0].name, body->inputs[1].name))
            return left("it may end early: its condition is computed in its body");
        decision.rounds = *rounds;
    }
    decision.rounds = std::max<std::int64_t>(decision.rounds, 0);
    const std::size_t carried = body->inputs.size() - 2;
    if (decision.rounds == 0 && body->outputs.size() > carried + 1) return left("it makes a tensor of nothing");
    const std::size_t nodes = nodes_of(*body) + body->outputs.size();
    if (!fits(graph, decision.rounds, nodes)) return left(too_long(decision.rounds, nodes));
    decision.nodes = static_cast<std::size_t>(decision.rounds) * nodes;
    return decision;
}

/// How a Scan's operands lie (opset 9 on).
struct ScanForm {
    std::size_t states = 0, scanned = 0, results = 0;
    std::vector<std::int64_t> input_axes, output_axes;
    std::vector<bool> input_reversed, output_reversed;
};
std::optional<ScanForm> scan_form(const Node& node, const Graph& body) {
    ScanForm form;
    const std::int64_t scanned = node.int_or("num_scan_inputs", 0);
    if (scanned < 1 || static_cast<std::size_t>(scanned) > node.inputs.size()) return std::nullopt;
    form.scanned = static_cast<std::size_t>(scanned);
    form.states = node.inputs.size() - form.scanned;
    if (body.inputs.size() != node.inputs.size() || body.outputs.size() != node.outputs.size() ||
        body.outputs.size() < form.states)
        return std::nullopt;
    form.results = body.outputs.size() - form.states;
    const auto filled = [&](const char* name, std::size_t count) {
        auto given = node.ints_or(name, {});
        if (given.empty()) given.assign(count, 0);
        return given;
    };
    form.input_axes = filled("scan_input_axes", form.scanned);
    form.output_axes = filled("scan_output_axes", form.results);
    const auto forward = filled("scan_input_directions", form.scanned);
    const auto written = filled("scan_output_directions", form.results);
    if (form.input_axes.size() != form.scanned || form.output_axes.size() != form.results ||
        forward.size() != form.scanned || written.size() != form.results)
        return std::nullopt;
    for (const std::int64_t direction : forward)
        form.input_reversed.push_back(direction != 0);
    for (const std::int64_t direction : written)
        form.output_reversed.push_back(direction != 0);
    return form;
}

Decision decide_scan(const Graph& graph, const Node& node, std::int64_t opset) {
    if (opset < 9) return left("it is of an opset before 9");
    const Graph* body = body_of(node, "body");
    const auto form = body == nullptr ? std::nullopt : scan_form(node, *body);
    if (!form) return left("its body is not as ONNX's");
    Decision decision;
    for (std::size_t i = 0; i < form->scanned; ++i) {
        const std::string& name = node.input(form->states + i);
        const auto shape = graph.info_or_name(name).shape();
        const auto rank = static_cast<std::int64_t>(shape ? shape->size() : 0);
        const std::int64_t axis = form->input_axes[i] < 0 ? form->input_axes[i] + rank : form->input_axes[i];
        const std::int64_t length = shape && axis >= 0 && axis < rank ? (*shape)[static_cast<std::size_t>(axis)] : -1;
        if (length < 0) return left("the length of " + name + " is not known");
        if (i > 0 && length != decision.rounds) return left("what it reads has different lengths");
        decision.rounds = length;
    }
    if (decision.rounds == 0 && form->results > 0) return left("it makes a tensor of nothing");
    const std::size_t nodes = nodes_of(*body) + form->scanned + form->results;
    if (!fits(graph, decision.rounds, nodes)) return left(too_long(decision.rounds, nodes));
    decision.nodes = static_cast<std::size_t>(decision.rounds) * nodes;
    return decision;
}

Decision decide(const Graph& graph, const Node& node, std::int64_t opset) {
    if (node.is("If")) return decide_if(graph, node);
    if (node.is("Loop")) return decide_loop(graph, node);
    if (node.is("Scan")) return decide_scan(graph, node, opset);
    return left(node.op_type + " with a body has no GPU form");
}

/// What bodies inside the node read from outside gets its new names.
void rename_captured(const Node& node, const Names& names) {
    for_each_subgraph(node, [&](Graph& inner) {
        Names visible = names;
        for (const std::string& own : defined_names(inner))
            visible.erase(own);
        if (visible.empty()) return;
        const auto renamed = [&](std::string& name) {
            if (const auto found = visible.find(name); found != visible.end()) name = found->second;
        };
        for (const auto& each : inner.nodes) {
            for (std::string& input : each->inputs)
                renamed(input);
            rename_captured(*each, visible);
        }
        for (ValueInfo& output : inner.outputs)
            renamed(output.name);
    });
}

/// What is written where one node stood.
class SelectionWriter {
public:
    SelectionWriter(Graph& graph, std::int64_t opset) : graph_(graph), opset_(opset) {}

    std::vector<std::unique_ptr<Node>> write(const Node& node, const Decision& decision) && {
        if (node.is("If")) write_if(node, decision);
        if (node.is("Loop")) write_loop(node, decision.rounds);
        if (node.is("Scan")) write_scan(node, decision.rounds);
        return std::move(made_);
    }

private:
    void add(const char* type, std::vector<std::string> inputs, std::string output,
             std::vector<Attribute> attributes = {}) {
        auto node = std::make_unique<Node>();
        node->op_type = type;
        node->inputs = std::move(inputs);
        node->outputs = {std::move(output)};
        node->attributes = std::move(attributes);
        made_.push_back(std::move(node));
    }
    std::string add_new(const char* type, std::vector<std::string> inputs, const std::string& stem,
                        std::vector<Attribute> attributes = {}) {
        std::string output = graph_.unique_name(stem);
        add(type, std::move(inputs), output, std::move(attributes));
        return output;
    }
    std::string constant(const std::string& stem, const Tensor& tensor) {
        std::string name = graph_.unique_name(stem);
        graph_.initializers.emplace(name, tensor.renamed(name));
        return name;
    }
    std::string number(const std::string& stem, std::int64_t value, Shape shape) {
        return constant(stem, Tensor::of_int64s("", std::move(shape), std::span(&value, 1)));
    }
    std::string truth(const std::string& stem, bool value, Shape shape) {
        const std::uint8_t byte = value ? 1 : 0;
        return constant(stem, Tensor::of("", DataType::boolean, std::move(shape), std::span(&byte, 1)));
    }
    std::string unsqueezed(const std::string& value, std::int64_t axis, const std::string& stem) {
        if (opset_ >= 13) return add_new("Unsqueeze", {value, number(stem + "_axis", axis, {1})}, stem);
        return add_new("Unsqueeze", {value}, stem, {{"axes", std::vector<std::int64_t>{axis}, ""}});
    }
    void joined(const Node& node, std::size_t output, std::vector<std::string> parts, std::int64_t axis,
                bool reversed) {
        if (node.output(output).empty()) return;
        if (reversed) std::reverse(parts.begin(), parts.end());
        if (parts.size() == 1) return add("Identity", std::move(parts), node.output(output));
        add("Concat", std::move(parts), node.output(output), {{"axis", axis, ""}});
    }

    /// Initializers of the body, once whatever the number of its rounds.
    Names constants_of(const Graph& body, const std::string& stem) {
        Names names;
        for (const auto& [name, tensor] : body.initializers) {
            if (body.find_input(name) == nullptr) names.emplace(name, constant(stem + "_" + name, tensor));
        }
        return names;
    }

    /// The body's nodes, its inputs being `inputs`; the names of its results.
    std::vector<std::string> inline_body(const Graph& body, Names names, const std::vector<std::string>& inputs,
                                         const std::string& stem) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
            names[body.inputs[i].name] = inputs[i];
        for (const auto& each : body.nodes) {
            auto node = std::make_unique<Node>(*each);
            if (!node->name.empty()) node->name = stem + "/" + node->name;
            for (std::string& input : node->inputs) {
                if (const auto found = names.find(input); found != names.end()) input = found->second;
            }
            rename_captured(*node, names);
            for (std::string& output : node->outputs) {
                if (output.empty()) continue;
                std::string fresh = graph_.unique_name(stem + "_" + output);
                names[output] = fresh;
                output = std::move(fresh);
            }
            made_.push_back(std::move(node));
        }
        std::vector<std::string> results;
        for (const ValueInfo& output : body.outputs) {
            const auto found = names.find(output.name);
            results.push_back(found == names.end() ? output.name : found->second);
        }
        return results;
    }

    void write_if(const Node& node, const Decision& decision) {
        const std::string stem = node.name.empty() ? node.output(0) : node.name;
        const auto written = [&](const Graph& branch, const std::string& name) {
            return inline_body(branch, constants_of(branch, name), {}, name);
        };
        if (decision.branch != nullptr) {
            const auto results = written(*decision.branch, stem);
            for (std::size_t i = 0; i < node.outputs.size(); ++i)
                if (!node.output(i).empty()) add("Identity", {results[i]}, node.output(i));
            return;
        }
        const auto yes = written(*body_of(node, "then_branch"), stem + "_then");
        const auto no = written(*body_of(node, "else_branch"), stem + "_else");
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
            if (!node.output(i).empty()) add("Where", {node.input(0), yes[i], no[i]}, node.output(i));
    }

    static Shape of_one(const ValueInfo& input) { return input.dims && input.dims->size() == 1 ? Shape{1} : Shape{}; }

    void write_loop(const Node& node, std::int64_t rounds) {
        const Graph& body = *body_of(node, "body");
        const std::string stem = node.name.empty() ? node.output(0) : node.name;
        const Names names = constants_of(body, stem);
        const std::size_t carried = body.inputs.size() - 2;
        std::string condition =
            node.input(1).empty() ? truth(stem + "_condition", true, of_one(body.inputs[1])) : node.input(1);
        std::vector<std::string> state(node.inputs.begin() + 2, node.inputs.end());
        std::vector<std::vector<std::string>> results(body.outputs.size() - 1 - carried);
        for (std::int64_t round = 0; round < rounds; ++round) {
            const std::string here = stem + "/" + std::to_string(round);
            std::vector<std::string> inputs{number(here + "_round", round, of_one(body.inputs[0])), condition};
            inputs.insert(inputs.end(), state.begin(), state.end());
            const auto given = inline_body(body, names, inputs, here);
            condition = given[0];
            for (std::size_t i = 0; i < carried; ++i)
                state[i] = given[1 + i];
            for (std::size_t i = 0; i < results.size(); ++i)
                results[i].push_back(unsqueezed(given[1 + carried + i], 0, here + "_result"));
        }
        for (std::size_t i = 0; i < carried; ++i)
            if (!node.output(i).empty()) add("Identity", {state[i]}, node.output(i));
        for (std::size_t i = 0; i < results.size(); ++i)
            joined(node, carried + i, std::move(results[i]), 0, false);
    }

    void write_scan(const Node& node, std::int64_t rounds) {
        const Graph& body = *body_of(node, "body");
        const ScanForm form = *scan_form(node, body);
        const std::string stem = node.name.empty() ? node.output(0) : node.name;
        const Names names = constants_of(body, stem);
        std::vector<std::string> state(node.inputs.begin(),
                                       node.inputs.begin() + static_cast<std::ptrdiff_t>(form.states));
        std::vector<std::vector<std::string>> results(form.results);
        for (std::int64_t round = 0; round < rounds; ++round) {
            const std::string here = stem + "/" + std::to_string(round);
            std::vector<std::string> inputs = state;
            for (std::size_t i = 0; i < form.scanned; ++i) {
                const std::int64_t at = form.input_reversed[i] ? rounds - 1 - round : round;
                inputs.push_back(add_new("Gather", {node.input(form.states + i), number(here + "_place", at, {})},
                                         here + "_" + body.inputs[form.states + i].name,
                                         {{"axis", form.input_axes[i], ""}}));
            }
            const auto given = inline_body(body, names, inputs, here);
            state.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(form.states));
            for (std::size_t i = 0; i < form.results; ++i)
                results[i].push_back(unsqueezed(given[form.states + i], form.output_axes[i], here + "_result"));
        }
        for (std::size_t i = 0; i < form.states; ++i)
            if (!node.output(i).empty()) add("Identity", {state[i]}, node.output(i));
        for (std::size_t i = 0; i < form.results; ++i)
            joined(node, form.states + i, std::move(results[i]), form.output_axes[i], form.output_reversed[i]);
    }

    Graph& graph_;
    std::int64_t opset_;
    std::vector<std::unique_ptr<Node>> made_;
};

void lift_from(Graph& body, Graph& outer, std::size_t bytes) {
    for (const auto& node : body.nodes)
        for_each_subgraph(*node, [&](Graph& inner) { lift_from(inner, outer, bytes); });
    std::vector<std::string> large;
    for (const auto& [name, tensor] : body.initializers)
        if (tensor.bytes().size() > bytes && body.find_input(name) == nullptr) large.push_back(name);
    for (const std::string& name : large) {
        const std::string lifted = outer.unique_name(name);
        outer.initializers.emplace(lifted, body.initializers.at(name).renamed(lifted));
        body.initializers.erase(name);
        body.replace_uses(name, lifted);
        for (ValueInfo& output : body.outputs)
            if (output.name == name) output.name = lifted;
    }
}

} // namespace

Result<bool> write_out_control_flow(Model& model, OpenConditions open) {
    Graph& graph = model.graph;
    const std::int64_t opset = model.opset();
    std::unordered_map<const Node*, std::vector<std::unique_ptr<Node>>> written;
    std::size_t added = 0;
    for (const auto& node : graph.nodes) {
        if (!has_subgraph(*node)) continue;
        const Decision decision = decide(graph, *node, opset);
        if (!decision.why.empty()) continue;
        if (node->is("If") && decision.branch == nullptr && open == OpenConditions::left) continue;
        // Those that do not fit together with the ones before are decided again by the next call.
        if (graph.nodes.size() + added + decision.nodes > most_written_nodes && !node->is("If")) continue;
        if (node->is("If") && decision.branch == nullptr)
            model.set_metadata(std::string(both_branches_key), node->label());
        added += decision.nodes;
        written.emplace(node.get(), SelectionWriter(graph, opset).write(*node, decision));
    }
    if (written.empty()) return false;
    std::vector<std::unique_ptr<Node>> nodes;
    for (auto& node : graph.nodes) {
        const auto found = written.find(node.get());
        if (found == written.end()) {
            nodes.push_back(std::move(node));
            continue;
        }
        std::move(found->second.begin(), found->second.end(), std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
    LATHE_CHECK(graph.sort_topologically());
    return true;
}

std::string control_flow_refusal(const Model& model, const Node& node) {
    return decide(model.graph, node, model.opset()).why;
}

void lift_large_constants(Graph& graph, std::size_t bytes) {
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](Graph& inner) { lift_from(inner, graph, bytes); });
}

} // namespace lathe::cuda
