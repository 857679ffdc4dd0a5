#pragma once

#include <vector>

#include "lathe/engine_types.hpp"
#include "support/json.hpp"

namespace lathe {

/// Layers as TensorRT's engine inspector tells them in JSON ({"Layers": [...]}, with ProfilingVerbosity::kDETAILED
/// objects, else names alone), in its order, without times. Precision is "int8" or "fp8" where the first input is,
/// else that of the first output ("fp16", "bf16", "fp32", ...; TensorRT 8 says "Row major linear FP16 format", 10
/// "Half"); `nodes` are the ONNX nodes in "Metadata". Multiply-accumulates are counted where sizes are told: for
/// convolutions from the output, the weights' count and the output maps, for matrix products from the first input and
/// the output. What is not there stays empty.
std::vector<LayerInfo> layers_of_inspector(const Json& information);

} // namespace lathe
