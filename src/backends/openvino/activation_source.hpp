#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/activation_source.hpp"
#include "graph/graph.hpp"

namespace lathe::openvino {

/// Runs `model` in float32 with the named tensors as its outputs. Inputs of the model may be named too (their views
/// are the caller's own memory). Any batch size runs if the model's batch axis is symbolic.
/// Errors: not_found for a tensor that is neither computed nor an input; unsupported, as OpenVINO tells.
Result<std::unique_ptr<ActivationSource>> make_activation_source(const Model& model, std::vector<std::string> tensors,
                                                                 std::size_t threads);

} // namespace lathe::openvino
