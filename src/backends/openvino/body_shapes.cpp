#include "backends/openvino/body_shapes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"

namespace lathe::openvino {

namespace {

using Dims = std::vector<Dimension>;

/// An input of a body that said nothing of its shape.
struct Lent {
    Graph* body;
    std::size_t input;
    std::optional<std::size_t> output; ///< what the next turn reads instead; nothing of a part of a sequence
};

std::optional<Dims> dims_of(const std::vector<const Graph*>& around, const std::string& value) {
    for (auto graph = around.rbegin(); graph != around.rend(); ++graph) {
        const auto info = (*graph)->info(value);
        if (!info) continue;
        if (!info->dims) return std::nullopt;
        Dims dims;
        for (const Dimension& each : *info->dims)
            dims.push_back(each.size ? Dimension::of(*each.size) : Dimension{});
        return dims;
    }
    return std::nullopt;
}

/// A trial: what is known of values, to begin anew with, and what is lent.
class Lending {
public:
    explicit Lending(Model& model) : model_(model) { remember(model.graph); }

    /// Whether shapes were found that hold; false where there are none to lend, or inference fails.
    bool run() {
        constexpr int most_rounds = 8;
        for (int round = 0; round < most_rounds; ++round) {
            const bool more = lend_in(model_.graph, {});
            if (lent_.empty()) return false;
            for (const Known& known : known_) {
                known.graph->outputs = known.outputs;
                known.graph->value_infos = known.value_infos;
            }
            if (!infer_shapes(model_)) return false;
            const bool less = loosen();
            if (!more && !less) return true;
        }
        return false;
    }

private:
    struct Known {
        Graph* graph;
        decltype(Graph::outputs) outputs;
        decltype(Graph::value_infos) value_infos;
    };

    void remember(Graph& graph) {
        known_.push_back({&graph, graph.outputs, graph.value_infos});
        for (const auto& node : graph.nodes)
            for_each_subgraph(*node, [&](Graph& body) { remember(body); });
    }

    bool lend_in(Graph& graph, std::vector<const Graph*> around) {
        around.push_back(&graph);
        bool found = false;
        for (const auto& node : graph.nodes) {
            found = lend(around, *node) || found;
            for_each_subgraph(*node, [&](Graph& body) { found = lend_in(body, around) || found; });
        }
        return found;
    }

    /// Lends what is known around a Scan or Loop to its body.
    bool lend(const std::vector<const Graph*>& around, Node& node) {
        const bool scans = node.is("Scan") && model_.opset() >= 9;
        Graph* body = scans || node.is("Loop") ? body_of(node, "body") : nullptr;
        if (body == nullptr || body->inputs.size() != node.inputs.size()) return false;
        const auto count = static_cast<std::int64_t>(node.inputs.size());
        const std::int64_t sequences = scans ? node.int_or("num_scan_inputs", 0) : 0;
        if (sequences < 0 || sequences > count) return false;
        const auto axes = node.ints_or("scan_input_axes", {});
        bool found = false;
        for (std::int64_t i = scans ? 0 : 2; i < count; ++i) {
            const auto at = static_cast<std::size_t>(i);
            ValueInfo& input = body->inputs[at];
            if (input.dims || !input.opaque_type.empty() || refused_.contains({body, at})) continue;
            auto dims = dims_of(around, node.inputs[at]);
            if (!dims) continue;
            Lent now{body, at, scans ? at : at - 1};
            if (const std::int64_t part = i - (count - sequences); scans && part >= 0) {
                const auto rank = static_cast<std::int64_t>(dims->size());
                std::int64_t axis = 0;
                if (part < static_cast<std::int64_t>(axes.size())) axis = axes[static_cast<std::size_t>(part)];
                if (axis < 0) axis += rank;
                if (axis < 0 || axis >= rank) continue;
                dims->erase(dims->begin() + axis);
                now.output.reset();
            }
            input.dims = std::move(dims);
            lent_.push_back(now);
            found = true;
        }
        return found;
    }

    /// Opens sizes that a body does not give back, and takes shapes back of which it gives another number of
    /// dimensions, or none that is known.
    bool loosen() {
        bool changed = false;
        for (const Lent& each : lent_) {
            auto& given = each.body->inputs[each.input].dims;
            if (!given || !each.output) continue;
            std::optional<Dims> back;
            if (*each.output < each.body->outputs.size())
                back = dims_of({each.body}, each.body->outputs[*each.output].name);
            if (!back || back->size() != given->size()) {
                given.reset();
                refused_.emplace(each.body, each.input);
                changed = true;
                continue;
            }
            for (std::size_t i = 0; i < given->size(); ++i) {
                if (!(*given)[i].size || (*given)[i].size == (*back)[i].size) continue;
                (*given)[i] = Dimension{};
                changed = true;
            }
        }
        return changed;
    }

    Model& model_;
    std::vector<Known> known_;
    std::vector<Lent> lent_;
    std::set<std::pair<const Graph*, std::size_t>> refused_;
};

struct Scope {
    const Graph* graph;
    std::unordered_set<std::string> names;
};

/// What a name is in the nearest graph that defines it.
const Tensor* constant_around(const std::vector<Scope>& around, const std::string& value) {
    const auto scope =
        std::find_if(around.rbegin(), around.rend(), [&](const Scope& each) { return each.names.contains(value); });
    return scope == around.rend() ? nullptr : scope->graph->constant(value);
}

/// Gives bodies the few integers (axes, sizes) that they read from around them: inference looks for those of an
/// operator in its own graph alone.
void give_integers_to_bodies(Graph& graph, std::vector<Scope>& around) {
    constexpr std::int64_t most_integers = 64;
    Scope own{&graph, defined_names(graph)};
    std::map<std::string, std::string> given;
    for (const auto& node : graph.nodes) {
        for (std::string& input : node->inputs) {
            if (input.empty() || own.names.contains(input)) continue;
            const Tensor* numbers = constant_around(around, input);
            if (numbers == nullptr || numbers->type() != DataType::int64 || numbers->count() > most_integers) continue;
            std::string& name = given[input];
            if (name.empty()) {
                graph.share_names(*around.front().graph);
                name = graph.unique_name(input);
                graph.initializers.emplace(name, numbers->renamed(name));
                own.names.insert(name);
            }
            input = name;
        }
    }
    around.push_back(std::move(own));
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](Graph& body) { give_integers_to_bodies(body, around); });
    around.pop_back();
}

bool has_turns(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const auto& node) {
        bool found = node->is("Scan") || node->is("Loop");
        for_each_subgraph(*node, [&](const Graph& body) { found = found || has_turns(body); });
        return found;
    });
}

} // namespace

void give_shapes_to_bodies(Model& model) {
    if (!has_turns(model.graph)) return;
    Model trial = model; // shares the tensors
    std::vector<Scope> around;
    give_integers_to_bodies(trial.graph, around);
    if (Lending(trial).run()) model = std::move(trial);
}

} // namespace lathe::openvino
