#include "backends/openvino/branches.hpp"

#include <algorithm>
#include <array>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

bool has_branches(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const auto& node) {
        bool found = node->is("If");
        for_each_subgraph(*node, [&](const Graph& body) { found = found || has_branches(body); });
        return found;
    });
}

} // namespace

void fix_sizes(Graph& graph, const std::map<std::string, ShapeRange>& shapes) {
    if (!has_branches(graph)) return;
    for (ValueInfo& input : graph.inputs) {
        const auto range = shapes.find(input.name);
        if (range == shapes.end() || !input.dims || input.dims->size() != range->second.min.size()) continue;
        for (std::size_t axis = 0; axis < input.dims->size(); ++axis) {
            const std::int64_t least = range->second.min[axis];
            if (least == range->second.max[axis]) (*input.dims)[axis] = Dimension::of(least);
        }
    }
}

Result<void> settle_branches(Model& model) {
    static constexpr std::array steps{"constant-nodes", "fold-shapes", "fold-constants", "inline-branches",
                                      "remove-no-ops"};
    for (std::size_t round = 0; round < max_pass_rounds && has_branches(model.graph); ++round) {
        // Without known shapes fewer conditions are answered; none wrongly.
        if (!infer_shapes(model, {true, false})) model.graph.value_infos.clear();
        bool changed = false;
        for (const char* step : steps) {
            LATHE_TRY(const bool applied, apply_pass(step, model));
            if (!applied) continue;
            remove_dead(model.graph);
            changed = true;
        }
        if (!changed) break;
    }
    return {};
}

} // namespace lathe::openvino
