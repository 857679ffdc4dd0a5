#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// What int8 does to one Conv, ConvTranspose, Gemm or MatMul with constant weights, told by histograms and weights
/// alone: no sample is read and nothing is run.
struct LayerNoise {
    std::size_t node = 0; ///< position in graph.nodes
    std::string label;    ///< Node::label
    /// Variance of the error that int8 adds to the layer's output over the variance of that output:
    ///     (E[(x - q(x))^2] |w|^2 + E[x^2] K s^2 / 12) / Var[y]
    /// with |w|^2 the mean over output channels of the sum of squares of the K weights that one output reads and s^2
    /// that of the squared scales. The first error is the histogram's, in closed form (QuantizationError); rounding
    /// errors of different inputs are taken to be independent of each other.
    double noise = 0.0;
    double share = 0.0; ///< of the sum over all layers
    /// Time that the layer in float adds to the int8 network, as a share of that network's: estimated from
    /// multiply-accumulates and bytes (see noisy_layers.cpp).
    double cost = 0.0;
    bool last = false; ///< it was taken for its place: see head_layers; `noise` and `share` are 0
};

/// Of the plan's int8 layers, in graph order; `values`: the range of each tensor, as insert_quantization takes them.
/// Left out are layers of whose input or output no histogram tells. The graph's shapes are inferred.
std::vector<LayerNoise> estimate_layer_noise(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
                                             const std::map<std::string, Range>& values);

/// The last convolutions of networks that answer for each place of an image (detectors, segmenters), whose errors go
/// into the answer as they are: int8 layers with constant weights and more than one result a channel, behind which none
/// is int8 any more. The cheapest first, while what they cost in float lasts.
std::vector<LayerNoise> head_layers(const Graph& graph, const QuantizationPlan& plan, double most_cost = 0.04);

/// "noise of 18 % of its output's variance, 73 % of all layers'; float adds about 1.2 % of time"
std::string describe(const LayerNoise& layer);
/// A line a noisy layer, and one for all last ones: "9 last layers (Conv_314, …), whose errors are the answer's; …".
std::vector<std::string> in_words(const std::vector<LayerNoise>& in_float);

struct NoisyLayerLimits {
    double noise = 0.02;    ///< a layer's noise from which on int8 is harmful whatever follows: 17 dB
    double over_median = 8; ///< times the median layer's noise, at least
    double cost = 0.04;     ///< of all layers left in float together
    /// Of layers with so much noise (7 dB) little of the answer is left; they may bring the cost of all to more.
    double ruinous_noise = 0.2;
    double ruinous_cost = 0.08;
    /// A layer that alone makes so much of all layers' noise is left in float, however little that is, where it costs
    /// next to nothing (a depthwise convolution near the input).
    double great_share = 0.2;
    double nearly_free = 0.01;
};

/// The layers to be left in float: those whose noise stands out, most noise for the cost first, while the cost lasts.
std::vector<LayerNoise> noisy_layers(std::vector<LayerNoise> layers, const NoisyLayerLimits& limits = {});

} // namespace lathe
