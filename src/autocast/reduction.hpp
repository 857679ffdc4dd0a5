#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autocast/format.hpp"
#include "graph/graph.hpp"

namespace lathe {

/// How a runtime adds up what a product multiplies (Conv, Gemm, MatMul, Attention).
enum class Accumulators {
    fp32, ///< matrix units and CPUs: 16-bit factors, sums in FP32
    own,  ///< sums in the 16-bit format itself
};

/// What one operation adds up for each number of its result.
struct Reduction {
    std::int64_t depth = 0; ///< K: terms of a sum; 0 where the depth is not known
    bool assumed = false;   ///< an axis of open size counted with the size given for such
    bool wide = false;      ///< sums are kept in FP32 whatever the type
    bool squares = false;   ///< the terms are squares of its input (variances, norms)
    bool product = false;   ///< the terms are products of its first two inputs
    bool bounded = false;   ///< the terms are at most 1 (Softmax)
};

/// How deep the node reduces; nothing if it does not. `open_size` stands for axes whose size is not known.
/// LayerNormalization and kin with stash_type 1, the default, sum in FP32 by ONNX's definition.
std::optional<Reduction> reduction_of(const Graph& graph, const Node& node, std::int64_t opset, std::int64_t open_size,
                                      Accumulators accumulators);

/// Bound of the error of one result relative to the sum of its terms' magnitudes, which holds with high probability
/// for roundings of mean zero: sqrt(K) u for sums in the format with unit roundoff u (Higham and Mary, "A new approach
/// to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019), 3 u + sqrt(K) 2^-24 for 16-bit factors
/// with FP32 sums rounded once at the end (Blanchard et al., "Mixed precision block fused multiply-add", SIAM J. Sci.
/// Comput. 42(3), 2020).
double error_bound(const Reduction& reduction, const HalfFormat& format);

} // namespace lathe
