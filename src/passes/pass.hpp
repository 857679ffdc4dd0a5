#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What a pass may know beyond the graph, and where it counts.
struct PassContext {
    std::int64_t opset = 0; ///< of ai.onnx
    /// A folded constant larger than this is kept only if it is no larger than the constants it replaces.
    std::size_t fold_limit_bytes = std::size_t{1} << 20;
    std::size_t rewrites = 0; ///< the pass adds one for each rewrite
    /// For a body: the graphs whose values it sees, the model's own first.
    std::vector<const Graph*> around = {};
};

/// Fills `value_infos` anew; called between rounds, since folds make more shapes known.
using ShapeInference = std::function<Result<void>(Model&)>;

/// Rounds of all passes, at most: sizes that are computed layer by layer (audio codecs pad each convolution by them)
/// take one a layer. Beyond that is a mistake.
inline constexpr std::size_t max_pass_rounds = 256;

/// One kind of rewrite. Every pass keeps the graph's function, its inputs and outputs (names and types), and all
/// QuantizeLinear and DequantizeLinear nodes. `apply` handles one graph and tells whether it changed it; the driver
/// calls it for subgraphs too, removes dead nodes and verifies after it, and repeats until nothing changes.
struct Pass {
    std::string name;
    std::string summary;
    Result<bool> (*apply)(Graph& graph, PassContext& context) = nullptr;
    bool pays_on_gpus = true; ///< false: it saves products for passes over memory
};

} // namespace lathe
