#pragma once

#include <map>
#include <string>

#include "autocast/facts.hpp"
#include "graph/graph.hpp"

namespace lathe {

/// Finds masks of attention scores that the format lacks (support/score_mask.hpp): constants, and what Add, Where and
/// moving operations make of them and of measured values. Their facts become those of their other numbers, with
/// `masked` set.
void find_masks(const Graph& graph, const HalfFormat& format, std::map<std::string, TensorFacts>& facts);

/// Whether a node does with a clamped mask what it does with the mask: those above, and softmax, where it vanishes.
bool takes_masks(const Graph& graph, const Node& node);

} // namespace lathe
