#pragma once

#include <cstddef>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Values without an element are known as soon as their sizes are: whatever reads one of the first `inputs` graph
/// inputs that has none (a CastLike's pattern, an empty set), or would compute one, reads a constant, which folds. A
/// reduction of nothing gives what its operator begins with: 0, 1, an infinity, or NaN for a mean. A Concat leaves out
/// what is empty. True where something changed; shapes must be inferred before.
bool fold_empty_values(Graph& graph, std::size_t inputs);

} // namespace lathe::cuda
