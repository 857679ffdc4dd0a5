#pragma once

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Gives inputs of bodies of Scan and Loop that say nothing of their shape that of what comes in, where the body gives
/// back as many dimensions; sizes that it gives back otherwise stay open. OpenVINO 2026.4 takes them to have any number
/// of dimensions, and has no form of most operators then. Shapes of the model must be inferred, and are again.
void give_shapes_to_bodies(Model& model);

} // namespace lathe::openvino
