#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.hpp"

namespace lathe::passes {

/// A convolution of single pixels, all of them, in one group, whose weights are constant floats.
struct Pointwise {
    const Tensor* weight = nullptr; ///< [results, channels, 1, ...]
    std::int64_t results = 0, channels = 0;
};

std::optional<Pointwise> pointwise_of(const Graph& graph, const Node& node);

} // namespace lathe::passes
