#pragma once

#include <map>
#include <string>
#include <vector>

#include "autocast/decide.hpp"
#include "graph/graph.hpp"
#include "passes/write_casts.hpp"

namespace lathe {

/// Keeps in FP32 what angles, sampling positions and integers are computed from, back to the next reduction: 11 bits
/// hold no angle of 1,000 radians and no position past 2,048.
void keep_exact(const Graph& graph, const AutocastOptions& options, const std::map<std::string, TensorFacts>& facts,
                std::vector<CastDecision>& decisions);

/// Keeps in FP32 connected groups of cast nodes without a Conv, Gemm or MatMul that touch an FP32 node.
void keep_islands(const Graph& graph, std::vector<CastDecision>& decisions);

} // namespace lathe
