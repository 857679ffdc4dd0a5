#pragma once

#include "passes/pass.hpp"

namespace lathe::passes {

/// Whether an operator makes, reads or changes a sequence of tensors.
bool works_on_sequences(const Node& node);

/// Writes each Loop that works on sequences, and whose turns are known to be few, as its turns one behind the other.
/// True if any was written.
Result<bool> unroll_sequence_loops(Graph& graph, PassContext& context);

} // namespace lathe::passes
