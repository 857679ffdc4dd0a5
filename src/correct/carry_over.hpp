#pragma once

#include <cstddef>

#include "graph/graph.hpp"

namespace lathe {

/// Gives the int8 layers of `quantized` the rounded weights and corrected biases that the same layers have in
/// `corrected`. Both come from one float model and its ranges; in `quantized` fewer or other layers may be in int8. A
/// layer takes them where its weight has the same scales; a correction made behind other layers in int8 still fits,
/// since most of what it takes away is the layer's own error. Returns how many layers took something.
std::size_t carry_over_corrections(const Model& corrected, Model& quantized);

} // namespace lathe
