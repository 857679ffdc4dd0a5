#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe::passes {

/// A convolution of single pixels, all of them, in one group, whose weights are constant floats.
struct Pointwise {
    const Tensor* weight = nullptr; ///< [results, channels, 1, ...]
    std::int64_t results = 0, channels = 0;
};

std::optional<Pointwise> pointwise_of(const Graph& graph, const Node& node);

/// Whether there is, or may be, padding around what a convolution reads.
bool is_padded(const Node& conv);

/// The numbers of a bias that is a constant of this type, one for each of `count` results; none where it is omitted.
std::optional<std::vector<double>> constant_bias(const Graph& graph, const std::string& name, std::int64_t count,
                                                 DataType type);

} // namespace lathe::passes
