#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// What a layer may cost to be left in float.
struct FloatCost {
    double macs = 0.005; ///< of the network's multiply-accumulates
    double bytes = 0.1;  ///< that float weights add to those of the int8 network's
};

/// Names of int8 layers with constant weights behind which nothing is int8 any more, the network's last ones, that cost
/// no more than this in float. What they err goes into the answer as it is, and a classifier behind a pooling reads few
/// values, of which a few are large: hard for 8 bits and little work. Layers whose name is not theirs alone are left
/// out.
std::vector<std::string> cheap_last_layers(const Model& model, const QuantizationPlan& plan,
                                           const FloatCost& cost = {});

} // namespace lathe
