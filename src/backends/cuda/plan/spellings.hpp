#pragma once

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// Rewrites the ways in which exporters spell LayerNorm, GELU, masks and attention into those that the patterns take.
/// The model's shapes must all be known; what is added has its shape and type in `value_infos`, whatever the opset has.
/// Every rewrite keeps what the model computes up to rounding.
Result<void> unify_spellings(Model& model);

/// Why an Attention node (opset 23) is not written out as products and a Softmax, "" if it is.
std::string attention_refusal(const Node& node);
/// An Attention node of a graph whose sizes are known becomes one operation; else its parts, as ONNX defines them.
bool attention_is_written_out(const Graph& graph, const Node& node);

} // namespace lathe::cuda
