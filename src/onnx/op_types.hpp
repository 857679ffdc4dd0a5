#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.hpp"

namespace lathe {

/// What ONNX's schema says of one input or output of an operator.
struct FormalType {
    std::string parameter; ///< the type parameter ("T"); positions that name the same one have the same type
    bool allowed = false;  ///< whether a tensor of the asked type may stand there
};

/// Whether input `position` of the node may be a tensor of `type`, by the standard operator's schema at `opset` (a
/// variadic last input stands for all further ones). Nothing for other domains, unknown operators and positions.
std::optional<FormalType> formal_input(const Node& node, std::int64_t opset, std::size_t position, DataType type);
/// The same for an output.
std::optional<FormalType> formal_output(const Node& node, std::int64_t opset, std::size_t position, DataType type);

/// How many inputs an operator takes.
struct InputCounts {
    std::size_t least = 0;
    std::size_t most = 0;
};

/// By the standard operator's schema at `opset`; nothing for other domains and unknown operators.
std::optional<InputCounts> input_counts(const Node& node, std::int64_t opset);

} // namespace lathe
