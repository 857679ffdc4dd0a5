#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "graph/graph.hpp"

namespace lathe {

/// Looks up what is known of a value, through the scopes around a subgraph.
using ValueLookup = std::function<std::optional<ValueInfo>(const std::string&)>;

struct MacCount {
    std::int64_t macs = 0;
    bool multiplies = false;         ///< the node is of a kind that is counted
    bool known = true;               ///< its shapes are known well enough
    bool assumed_dimensions = false; ///< an unknown dimension counted as 1
};

/// Multiply-accumulates of one node: for convolutions the weights' elements times the output positions
/// (ConvTranspose: input positions); for matrix products M*N*K; for recurrent nodes steps*batch*(|W| + |R|).
MacCount count_macs(const Node& node, const ValueLookup& lookup);

} // namespace lathe
