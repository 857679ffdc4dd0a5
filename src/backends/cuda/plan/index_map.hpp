#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Numbers between neighbours along each axis of a value that lies in row-major order.
Shape strides_of(const Shape& dims);

/// A part of an index: `extent` steps of `stride` numbers in the memory of the value that is read.
struct Digit {
    std::int64_t extent = 1, stride = 1;
};

/// What a chain of Reshape, Transpose, Squeeze, Unsqueeze and Flatten over `source` reads: for each axis of its result
/// the digits of that axis's index, most significant first; none for an axis of size 1.
struct IndexMap {
    std::string source;
    Shape source_dims, dims;
    std::vector<std::vector<Digit>> axes;
    std::size_t transposes = 0; ///< of the chain, those that only move axes of size 1 left out
    bool turns_image = false;   ///< one of them moves channels to or from the end, which images do by their layout

    /// As many digits as a transposition of the source in one pass has axes: neighbours on both sides are one.
    std::size_t pieces() const;
};

/// Only numbers' places change, none is left out.
bool only_moves(const Node& node);

/// Of the chain behind `value`, as far as each value on the way has one reader, as if `value` were reshaped to `dims`.
/// Nothing where a size is not known or 0.
std::optional<IndexMap> index_map_of(const Graph& graph, const Uses& uses, const std::string& value, Shape dims);

/// The digits of one axis, none over two axes of the source; nothing where that cannot be.
std::optional<std::vector<Digit>> digits_by_source(const IndexMap& map, std::size_t axis);

/// The map of a value that is the map's result, transposed.
std::optional<IndexMap> transposed(IndexMap map, const std::vector<std::int64_t>& order);

/// Source -> Reshape `split` -> Transpose `order` -> Reshape as the map's result. Where the axes of source or result
/// allow it, `split` is the source's sizes and `turned` the result's, and there is nothing to do.
struct OneTranspose {
    Shape split, turned;
    std::vector<std::int64_t> order;
    bool moves() const; ///< else the result is a Reshape of the source
};
OneTranspose one_transpose(const IndexMap& map);

} // namespace lathe::cuda
