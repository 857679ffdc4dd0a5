#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// Values whose channels can be multiplied by the same positive factors without changing the network's outputs: all of
/// them are computed by `writers`, whose weights take the factors, or from one another by operations that commute with
/// them (Relu, pooling, sums, ...), and are read by `readers`, whose weights take them back.
struct ChannelClass {
    struct Layer {
        std::size_t node = 0;
        bool depthwise = false; ///< one input and one output channel a group
    };
    std::vector<Layer> writers;      ///< Conv, Gemm, LayerNormalization
    std::vector<Layer> readers;      ///< Conv, Gemm, MatMul
    std::vector<std::string> values; ///< all of them, in order of their names
    std::size_t channels = 0;
    std::optional<float> cap; ///< of a Clip(0, cap): factors must be at least 1 and keep what was seen under the cap
    bool normalized = false;  ///< a LayerNormalization writes it
    std::string value = {};   ///< which a Mul in front of the readers scales (scaled_inputs): there are no writers then
};

/// The classes of the top graph. Shapes must be inferred. Everything else about a value blocks its class: inputs and
/// outputs of the network, activations that are not homogeneous, readers or writers without constant weights.
std::vector<ChannelClass> channel_classes(const Model& model);

} // namespace lathe
