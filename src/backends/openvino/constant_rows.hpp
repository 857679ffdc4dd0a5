#pragma once

#include <unordered_set>

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Adds 0, computed of an input, to what is quantised for a layer of bytes that has nothing but constants: queries that
/// were learned, repeated for each sample or not. OpenVINO 2026.4 takes them for weights, and then lacks what it made
/// of the layer behind.
void keep_constant_rows(ov::Model& model);

/// Nodes that are computed of constants and sizes alone.
std::unordered_set<const ov::Node*> constant_nodes(const ov::Model& model);

} // namespace lathe::openvino
