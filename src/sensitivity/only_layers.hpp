#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"
#include "lathe/quantize.hpp"
#include "lathe/result.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// Labels of all Conv, ConvTranspose, Gemm and MatMul of the top graph but those in `layers`: what to exclude so that
/// these alone are quantised.
std::vector<std::string> all_layers_but(const Graph& graph, const std::unordered_set<std::string>& layers);

/// How layers are quantised one at a time.
struct LayerRules {
    const RangesFile& ranges;
    Target target = Target::openvino;
    WeightRange weight_range = WeightRange::full;
    /// Tensors that have a zero point of -128 where everything is quantised (ScaleGroup::from_zero). A piece does not
    /// show by itself that a value is never negative.
    std::unordered_set<std::string> from_zero = {};
};

/// The tensors of a plan for the whole model that go into LayerRules::from_zero.
std::unordered_set<std::string> tensors_from_zero(const QuantizationPlan& plan);

/// A copy of the model (a piece of the one that was calibrated, value names kept) in which the layer with this label
/// alone is quantised, its weights and the activations that it multiplies. A tensor that was not calibrated because
/// quantisation commutes with what makes it (pooling of maxima, reshaping; `whole` tells) has the range of what that
/// was made from. Errors: as insert_quantization; not_found where the layer cannot be quantised.
Result<Model> quantize_only(const Model& piece, const Graph& whole, const std::string& layer, const LayerRules& rules);

} // namespace lathe
