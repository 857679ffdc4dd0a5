#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

struct NodeEvaluationOptions {
    std::int64_t opset = 0;
    std::size_t max_output_bytes = std::size_t{1} << 30; ///< a larger result is refused before it is allocated
};

/// Whether the reference evaluator knows the operator at all. Never QuantizeLinear or DequantizeLinear: folding them
/// would take the quantisation out of a model.
bool can_evaluate(const Node& node);

/// The outputs of one ai.onnx node for constant inputs, by the definitions of the ONNX operator specification. `inputs`
/// follow the node's; nullptr for an omitted one. float16 and bfloat16 are computed in float and rounded once;
/// integers wrap around as two's complement. Errors: unsupported (operator, type, or form), out_of_range (a result
/// larger than allowed), invalid_argument (shapes or values the operator forbids). Never changes anything.
Result<std::vector<Tensor>> evaluate(const Node& node, std::span<const Tensor* const> inputs,
                                     const NodeEvaluationOptions& options);

} // namespace lathe
