#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// A uniform quantiser as a pair of QuantizeLinear and DequantizeLinear has it.
struct Quantizer {
    float scale = 1.0F;
    float zero_point = 0.0F;
    float lowest = 0.0F;
    float highest = 255.0F;
    /// Values become what the pair makes of them.
    void apply(std::span<float> values) const;
};

/// Where a layer's bias is, and what it holds.
struct BiasPlace {
    std::size_t node = 0;  ///< the layer itself, or the Add behind a MatMul
    std::size_t input = 0; ///< of that node
    std::string name;      ///< of the constant; empty where there is none yet
    Shape shape;
    std::vector<float> values; ///< one a channel; zeros where there is none yet
};

/// A Conv, Gemm or MatMul whose weight is int8 behind a DequantizeLinear.
struct QuantizedLayer {
    std::string label;
    std::string op_type;
    std::string output;     ///< name of its output: the same as in the float model
    std::string input_name; ///< what it reads
    std::string weight;     ///< the int8 constant
    Shape shape;
    std::vector<std::int8_t> steps;
    std::vector<float> scales;      ///< one a channel, or one
    int limit = 127;                ///< the largest magnitude in use: 64 where weights have 7 bits
    std::optional<Quantizer> input; ///< of its input, where that is one per tensor
    std::string quantized;          ///< the tensor that this quantises; empty without one
    std::optional<BiasPlace> bias;  ///< absent where none can be given

    float scale_of(std::size_t channel) const { return scales.size() == 1 ? scales[0] : scales[channel]; }
};

/// In graph order. Weights that several nodes read are left out: they cannot suit both.
std::vector<QuantizedLayer> quantized_layers(const Model& model);

/// Gives the layer, which has a place for it, this bias, one value a channel, as a constant of its own. What it read
/// before stays in the graph. Returns the constant.
const Tensor& put_bias(Graph& graph, const QuantizedLayer& layer, std::span<const float> values);

} // namespace lathe
