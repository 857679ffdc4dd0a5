#include "api/summary.hpp"

#include <string>
#include <unordered_map>

#include "onnx/onnx.hpp"
#include "passes/passes.hpp"

namespace lathe {
namespace {

/// Open dimensions of the inputs become 1. Whether there were any.
bool close_inputs(Graph& graph) {
    bool assumed = false;
    for (ValueInfo& input : graph.inputs) {
        if (!input.dims) continue;
        for (Dimension& dim : *input.dims) {
            if (dim.size) continue;
            dim = Dimension::of(1);
            assumed = true;
        }
    }
    return assumed;
}

/// Sizes by name (the file's, or those inference made up) would not be replaced by the numbers known later.
void forget_symbols(Graph& graph) {
    for (ValueInfo& output : graph.outputs) {
        if (!output.dims) continue;
        for (Dimension& dim : *output.dims)
            dim.symbol.clear();
    }
}

/// Fold what shapes are computed from until nothing changes. Stops early at an error: what is known by then counts.
void fold_shape_arithmetic(Model& model) {
    static const Pass folds[] = {{"constant-nodes", "", passes::constant_nodes},
                                 {"fold-shapes", "", passes::fold_shapes},
                                 {"fold-constants", "", passes::fold_constants}};
    PassContext context;
    context.opset = model.opset();
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        forget_symbols(model.graph);
        if (!infer_shapes(model, {.discard_existing = true})) return;
        bool changed = false;
        for (const Pass& fold : folds) {
            const auto applied = apply_pass(fold, model.graph, context);
            if (!applied) return;
            changed = changed || *applied;
        }
        if (!changed) return;
    }
}

} // namespace

ModelSummary summarize_resolved(const Model& model) {
    ModelSummary summary = summarize(model);
    if (!summary.assumed_dimensions && summary.unknown_layers == 0) return summary;
    Model resolved = model;
    const bool assumed = close_inputs(resolved.graph);
    fold_shape_arithmetic(resolved);
    const ModelSummary known = summarize(resolved);
    std::unordered_map<std::string, std::int64_t> macs;
    for (const LayerSummary& layer : known.layers)
        macs.emplace(layer.name, layer.macs);
    for (LayerSummary& layer : summary.layers) {
        if (const auto found = macs.find(layer.name); found != macs.end()) layer.macs = found->second;
    }
    summary.macs = known.macs;
    summary.unknown_layers = known.unknown_layers;
    summary.assumed_dimensions = assumed || known.assumed_dimensions;
    summary.activation_bytes = known.activation_bytes;
    summary.peak_activation_bytes = known.peak_activation_bytes;
    return summary;
}

} // namespace lathe
