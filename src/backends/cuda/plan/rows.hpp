#pragma once
// Tensors whose length only running tells (what NonMaxSuppression picks, NonZero's places): they have room for the
// most, and their number is a value beside them. An output is cut to it on the host.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// An output of the model, the axis along which it is cut, and the value of the node that counts.
struct CutOutput {
    std::size_t output = 0;
    std::int64_t axis = 0;
    std::string source;
};

/// Gives what NonMaxSuppression, NonZero and Compress make the size of the most that it can be, where that is known and
/// nothing behind it asks for the real one (Shape). Compress becomes NonZero and Gather. True if anything was changed;
/// shapes behind it are to be inferred. What cannot be bounded is left.
Result<bool> bound_rows(Model& model);
/// Whether bound_rows gave this node's result a size.
bool is_bounded(const Node& node);
/// Why the size of this node's result cannot be bounded; "" if it can or the node is another.
std::string unbounded_because(const lathe::Graph& graph, const Node& node);

/// Follows bounded values through the graph, whose shapes are known, to its outputs; the Gathers that gave them their
/// size become Identity. Errors: out_of_range naming the node that would take what is only room for a part of the
/// tensor.
Result<std::vector<CutOutput>> cut_outputs(lathe::Graph& graph);

/// Leaves the first `count` of `shape[axis]`: moves what is kept to the front of `bytes` and sets the size. A count
/// beyond the size leaves all.
void cut_rows(std::span<std::byte> bytes, std::size_t element_bytes, Shape& shape, std::int64_t axis,
              std::int64_t count);

} // namespace lathe::cuda
