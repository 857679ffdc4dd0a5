#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "passes/pass.hpp"

namespace lathe {

/// All passes, in the order they are run.
const std::vector<Pass>& all_passes();

/// The pass of this name, or nullptr.
const Pass* find_pass(std::string_view name);

/// Apply one pass to the bodies of all subgraphs, innermost first, then to the graph: what a body no longer captures
/// may be dead outside. Whether anything changed.
Result<bool> apply_pass(const Pass& pass, Graph& graph, PassContext& context);

/// The pass of this name, which there is, on a whole model. Errors: the pass's, with its name.
Result<bool> apply_pass(std::string_view name, Model& model);

/// One round of passes on a whole model, on shapes that are inferred anew; whether anything changed. Without known
/// shapes fewer rewrites fire; none becomes wrong. Errors: the passes', with their names.
Result<bool> apply_round(std::span<const Pass> passes, Model& model, const ShapeInference& infer_shapes);

namespace passes {

Result<bool> constant_nodes(Graph& graph, PassContext& context);
Result<bool> fold_constants(Graph& graph, PassContext& context);
Result<bool> fold_shapes(Graph& graph, PassContext& context);
Result<bool> constant_reshape_targets(Graph& graph, PassContext& context);
Result<bool> fold_sequences(Graph& graph, PassContext& context);
Result<bool> join_assignments(Graph& graph, PassContext& context);
Result<bool> inline_branches(Graph& graph, PassContext& context);
Result<bool> remove_dead_code(Graph& graph, PassContext& context);
Result<bool> remove_no_ops(Graph& graph, PassContext& context);
Result<bool> merge_duplicates(Graph& graph, PassContext& context);
Result<bool> merge_transposes(Graph& graph, PassContext& context);
Result<bool> merge_reshapes(Graph& graph, PassContext& context);
Result<bool> merge_activations(Graph& graph, PassContext& context);
Result<bool> merge_pads(Graph& graph, PassContext& context);
Result<bool> fold_batch_norm(Graph& graph, PassContext& context);
Result<bool> merge_branches(Graph& graph, PassContext& context);
Result<bool> fold_affine(Graph& graph, PassContext& context);
Result<bool> fold_affine_forward(Graph& graph, PassContext& context);
Result<bool> modulate_images_not_filters(Graph& graph, PassContext& context);
Result<bool> convolve_apart(Graph& graph, PassContext& context);
Result<bool> convolve_before_doubling(Graph& graph, PassContext& context);
Result<bool> convolve_before_resize(Graph& graph, PassContext& context);
Result<bool> merge_linear_maps(Graph& graph, PassContext& context);
Result<bool> merge_space_to_depth(Graph& graph, PassContext& context);
Result<bool> matmul_to_gemm(Graph& graph, PassContext& context);

} // namespace passes
} // namespace lathe
