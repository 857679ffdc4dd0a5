#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// A run of a graph's nodes that can be executed by itself, given the values that cross its border.
struct Segment {
    std::vector<std::string> inputs;  ///< computed before it (or inputs of the graph) and read in it
    std::vector<std::string> outputs; ///< computed in it and read behind it, or outputs of the graph
};

/// A network taken apart so that whatever lies from any one layer to the end can be run by itself.
struct Division {
    struct Layer {
        std::size_t node = 0;            ///< position in graph.nodes
        Segment own;                     ///< begins with the layer, ends at the next cut, or at the end
        std::optional<std::size_t> rest; ///< index into `rests` of what follows `own`
    };
    std::vector<Layer> layers;
    std::vector<Segment> rests; ///< what lies behind a cut, to the end
};

/// Divides the graph, in its own order, for `layers` (positions in graph.nodes, ascending). There are so many cuts, and
/// at such places, that little memory is needed and few bytes cross: without cuts every layer would need the weights of
/// all that is behind it, and every cut needs those of all that is behind it once more, and a copy of what crosses it,
/// for every layer in front of it. Values whose shape is not fixed never cross: infer shapes first.
Division divide(const Model& model, const std::vector<std::size_t>& layers);

/// What computes `outputs` from `inputs`, as a model of its own, with the constants it needs. Constants are shared, not
/// copied. Values that are neither given nor computed are missing in it, which `verify` tells.
Model extract(const Model& model, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

} // namespace lathe
