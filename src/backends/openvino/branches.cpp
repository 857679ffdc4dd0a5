#include "backends/openvino/branches.hpp"

#include <algorithm>
#include <utility>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "passes/passes.hpp"
#include "passes/sequence_loops.hpp"

namespace lathe::openvino {

namespace {

bool has_questions(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const auto& node) {
        bool found = node->is("If") || passes::works_on_sequences(*node);
        for_each_subgraph(*node, [&](const Graph& body) { found = found || has_questions(body); });
        return found;
    });
}

} // namespace

void fix_sizes(Model& model, const std::map<std::string, ShapeRange>& shapes) {
    Model sized = model; // shares the tensors
    bool changed = false;
    for (ValueInfo& input : sized.graph.inputs) {
        const auto range = shapes.find(input.name);
        if (range == shapes.end() || !input.dims || input.dims->size() != range->second.min.size()) continue;
        for (std::size_t axis = 0; axis < input.dims->size(); ++axis) {
            const std::int64_t least = range->second.min[axis];
            if (least != range->second.max[axis] || (*input.dims)[axis].size == least) continue;
            (*input.dims)[axis] = Dimension::of(least);
            changed = true;
        }
    }
    if (changed && infer_shapes(sized, {.discard_existing = true})) model = std::move(sized);
}

Result<void> settle_branches(Model& model) {
    static const Pass answers[] = {{"fold-shapes", "", passes::fold_shapes},
                                   {"fold-constants", "", passes::fold_constants},
                                   {"inline-branches", "", passes::inline_branches},
                                   {"fold-sequences", "", passes::fold_sequences},
                                   {"remove-no-ops", "", passes::remove_no_ops}};
    const auto infer = [](Model& of) { return infer_shapes(of, {true, false}); };
    for (std::size_t round = 0; round < max_pass_rounds && has_questions(model.graph); ++round) {
        LATHE_TRY(const bool changed, apply_round(answers, model, infer));
        if (!changed) break;
    }
    return {};
}

} // namespace lathe::openvino
