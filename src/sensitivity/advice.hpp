#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sensitivity/measure.hpp"

namespace lathe {

/// A layer among those that are quantised, the most harmful first.
struct RankedLayer {
    std::size_t layer = 0;   ///< index into Sensitivity::layers
    double damage = 0;       ///< see Score::damage
    double damage_share = 0; ///< of the damage of all layers together
    double macs_share = 0;   ///< of the multiply-accumulates of all layers, the float ones included
};

/// Equal damage: by a task's metric the one with fewer of the float network's answers first; then the one of less work,
/// since it costs less to keep; then graph order.
std::vector<RankedLayer> rank_layers(const Sensitivity& sensitivity, DamageMetric metric);

/// The layers that stand out: at least 5 % of all damage and five times the median layer's, most harmful first, at most
/// eight, until the rest does less than a quarter. Empty where no layer stands out.
std::vector<RankedLayer> outstanding_layers(const Sensitivity& sensitivity, DamageMetric metric);

/// What to do, in sentences: "Keep conv1 (first convolution) and fc (classifier) in FP16: ...".
std::vector<std::string> advise(const Sensitivity& sensitivity, DamageMetric metric);

} // namespace lathe
