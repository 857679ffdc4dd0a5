#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe::cuda {

/// Why an LSTM, GRU or RNN node has no GPU form, "" if it has one.
std::string recurrent_refusal(const Node& node);

} // namespace lathe::cuda
