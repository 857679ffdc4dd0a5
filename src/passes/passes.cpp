#include "passes/passes.hpp"

#include <algorithm>
#include <utility>

#include "graph/subgraphs.hpp"
#include "passes/rewrite.hpp"

namespace lathe {

const std::vector<Pass>& all_passes() {
    // All are repeated until nothing changes; the order only decides how soon that is.
    static const std::vector<Pass> list{
        // First, so that every later pass has one kind of constant to look for.
        {"constant-nodes", "Constant nodes become initializers", passes::constant_nodes},
        {"fold-shapes", "Shape, Size and parts of shapes that are known become constants", passes::fold_shapes},
        // After fold-shapes: the arithmetic on shapes is constant only then.
        {"fold-constants", "nodes whose inputs are all constant are evaluated", passes::fold_constants},
        // After fold-constants: what is known of the sizes is constant then.
        {"reshape-targets", "a Reshape's sizes that its input tells become constants",
         passes::constant_reshape_targets},
        // After fold-constants, which answers what the condition asks; before what looks for chains of nodes.
        {"inline-branches", "an If whose condition is known becomes the branch that it takes", passes::inline_branches},
        {"fold-sequences", "tensors are read as they are, not out of a sequence", passes::fold_sequences},
        {"remove-no-ops", "nodes that return their input are bypassed", passes::remove_no_ops},
        {"merge-duplicates", "equal nodes and equal initializers become one", passes::merge_duplicates},
        // After fold-constants, which counts the indices where sizes are known, and what removes the steps between.
        {"join-assignments", "what is assigned to a part is joined with the rest", passes::join_assignments},
        {"merge-transposes", "consecutive Transposes become one", passes::merge_transposes},
        {"merge-reshapes", "consecutive Reshapes become one", passes::merge_reshapes},
        {"merge-activations", "Relu, Clip, Min and Max in a row become one", passes::merge_activations},
        // Before the folds into convolutions, whose patterns do not look through a Pad.
        {"merge-pads", "Pad goes into the Conv or pooling that reads it", passes::merge_pads},
        {"merge-space-to-depth", "a Conv of a picture taken apart by steps reads the picture",
         passes::merge_space_to_depth},
        // Before the folds, which need constant weights.
        {"modulate-images", "factors of a convolution's filters go to its images", passes::modulate_images_not_filters},
        // Before matmul-to-gemm would be too early: a Gemm made there may have a BatchNormalization behind it.
        {"matmul-to-gemm", "MatMul and Add of a constant become one Gemm", passes::matmul_to_gemm},
        {"fold-batch-norm", "BatchNormalization goes into the weights before it", passes::fold_batch_norm},
        // After fold-batch-norm: branches end with a BatchNormalization each.
        {"merge-branches", "convolutions of one input whose results are added become one", passes::merge_branches},
        // After fold-batch-norm: a scale folded into the BatchNormalization's producer first would round twice.
        {"fold-affine", "Mul, Add, Sub and Div by constants go into the weights before them", passes::fold_affine},
        // After fold-batch-norm and fold-affine: a layer in front takes them for all readers, padded ones too.
        {"fold-affine-forward", "BatchNormalization, Mul, Add, Sub and Div go into the weights behind them",
         passes::fold_affine_forward},
        // After the folds into convolutions, whose results are sums behind it.
        {"convolve-before-resize", "a 1x1 Conv is computed before what enlarges its image",
         passes::convolve_before_resize},
        // After convolve-before-resize, which takes the Resize from between two of them.
        {"merge-linear-maps", "a 1x1 Conv goes into the Conv or MatMul before it", passes::merge_linear_maps},
        // Before convolve-before-doubling, which takes the convolution of what was doubled.
        {"convolve-apart", "a Conv of doubled pixels beside others is one of each (not for GPUs)",
         passes::convolve_apart, false},
        {"convolve-before-doubling", "a Conv of doubled pixels is one a phase, of the pixels as they were",
         passes::convolve_before_doubling},
        {"remove-dead-code", "nodes and initializers that nothing reads are removed", passes::remove_dead_code},
    };
    return list;
}

const Pass* find_pass(std::string_view name) {
    const auto& list = all_passes();
    const auto found = std::find_if(list.begin(), list.end(), [&](const Pass& pass) { return pass.name == name; });
    return found == list.end() ? nullptr : &*found;
}

Result<bool> apply_pass(const Pass& pass, Graph& graph, PassContext& context) {
    bool changed = false;
    Result<void> inner_result;
    context.around.push_back(&graph);
    for (const auto& node : graph.nodes) {
        for_each_subgraph(*node, [&](Graph& inner) {
            if (!inner_result) return;
            inner.share_names(graph);
            auto applied = apply_pass(pass, inner, context);
            if (!applied) {
                inner_result = std::move(applied).error().in("node " + node->label());
            } else {
                changed = *applied || changed;
            }
        });
    }
    context.around.pop_back();
    if (!inner_result) return std::move(inner_result).error();
    LATHE_TRY(const bool applied, pass.apply(graph, context));
    return applied || changed;
}

namespace {

Result<bool> apply_pass(const Pass& pass, Model& model) {
    PassContext context;
    context.opset = model.opset();
    auto applied = apply_pass(pass, model.graph, context);
    if (!applied) return std::move(applied).error().in("pass " + pass.name);
    return applied;
}

} // namespace

Result<bool> apply_pass(std::string_view name, Model& model) { return apply_pass(*find_pass(name), model); }

Result<bool> apply_round(std::span<const Pass> passes, Model& model, const ShapeInference& infer_shapes) {
    if (!infer_shapes(model)) model.graph.value_infos.clear();
    bool changed = false;
    for (const Pass& pass : passes) {
        LATHE_TRY(const bool applied, apply_pass(pass, model));
        if (applied) remove_dead(model.graph);
        changed = applied || changed;
    }
    return changed;
}

} // namespace lathe
