#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// A run of a graph's nodes that can be executed by itself, given the values that cross its border.
struct Segment {
    std::vector<std::string> inputs;  ///< computed before it (or inputs of the graph) and read in it
    std::vector<std::string> outputs; ///< computed in it and read behind it, or outputs of the graph
    std::vector<std::size_t> layers;  ///< its Conv, ConvTranspose, Gemm and MatMul: positions in graph.nodes
};

/// Cuts the graph, in its own order, where as few values as possible cross. A segment that holds more than `share` of
/// all multiply-accumulates is cut again where that is possible; a network of residual blocks falls apart between
/// them. `macs`: one number a node. Values whose shape is not fixed never cross: infer shapes first.
std::vector<Segment> cut_into_segments(const Model& model, const std::vector<double>& macs, double share);

/// What computes `outputs` from `inputs`, as a model of its own, with the constants it needs. Constants are shared, not
/// copied. Values that are neither given nor computed are missing in it, which `verify` tells.
Model extract(const Model& model, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

} // namespace lathe
