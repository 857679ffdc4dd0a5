#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/tensorrt/api.hpp"
#include "lathe/engine_types.hpp"

namespace lathe::tensorrt {

/// What a strongly typed network says of itself before it is built: every precision in it is kept by the builder.
struct NetworkSummary {
    /// One a layer as parsed, so not fused. Layers that multiply have the precision of their factors: "int8" where all
    /// of them come from DequantizeLinear, else that of their result. `nodes` is the ONNX node they are named after.
    std::vector<LayerInfo> layers;
    std::map<std::string, std::size_t> weight_bytes; ///< of constants, by type
    /// Layers that multiply activations with each other: neither factor follows from a constant alone.
    std::set<std::string> between_activations;
};
NetworkSummary summarize(const nvinfer1::INetworkDefinition& network);

} // namespace lathe::tensorrt
