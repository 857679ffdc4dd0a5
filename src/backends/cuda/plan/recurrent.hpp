#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Why an LSTM, GRU or RNN node has no GPU form, "" if it has one.
std::string recurrent_refusal(const Node& node);
/// An RNN whose activation is Relu, in every direction.
bool is_relu(const Node& node);

/// Cells whose batch comes first (layout 1) become those whose steps do, between transpositions. True if there were
/// any.
bool write_out_batch_first(Graph& graph);

} // namespace lathe::cuda
