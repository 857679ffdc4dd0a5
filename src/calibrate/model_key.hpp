#pragma once

#include <string>

#include "graph/graph.hpp"

namespace lathe {

/// Digest of what decides a model's activations and their names: operators, attributes, value names, constants,
/// opsets, input types and fixed sizes. Insensitive to metadata, documentation, node names, inferred shapes and the
/// names of symbolic dimensions. A pass over the weights at memory speed.
std::string calibration_key(const Model& model);

} // namespace lathe
