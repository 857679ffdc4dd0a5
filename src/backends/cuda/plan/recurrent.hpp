#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Why an LSTM, GRU or RNN node has no GPU form, "" if it has one.
std::string recurrent_refusal(const Node& node);
/// Each direction becomes a node RecurrentDirection (patterns/recurrent.cpp takes it), their results put together as
/// the operator has them. Sizes must be known. True if there was one.
bool write_out_recurrent(Graph& graph, std::int64_t opset);

} // namespace lathe::cuda
