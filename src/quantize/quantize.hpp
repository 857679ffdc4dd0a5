#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"
#include "quantize/noisy_layers.hpp"
#include "quantize/placement.hpp"
#include "support/json.hpp"

namespace lathe {

struct QuantizeOptions {
    Target target = Target::openvino;
    PlacementOptions placement;
    std::optional<WeightRange> weight_range; ///< absent: range_for_this_cpu
    /// Instead of the method in the ranges file; its histograms serve any.
    std::optional<Method> method;
    EstimateOptions estimate; ///< with `method`; its guard is the ranges file's
    /// By tensor, instead of what any method or rule finds; united with the others of its scale group.
    std::map<std::string, Range> overrides;
    /// The same where there is no override, and where the tensor is quantised: chosen for a plan that may differ.
    std::map<std::string, Range> chosen = {};
    /// Leave in float what 8 bits harm most, where that costs next to nothing (noisy_layers, head_layers).
    bool noisy_in_float = false;
};

/// A tensor whose range another tool's file does not tell, and the nodes that stay in float because of it.
struct MissingRange {
    std::string tensor;
    std::vector<std::string> nodes;
};

struct QuantizeOutcome {
    Model model;
    QuantizationPlan plan;
    std::vector<LayerNoise> noise;     ///< of all int8 layers, those of `in_float` too; empty without noisy_in_float
    std::vector<LayerNoise> in_float;  ///< left in float as too noisy, the most harmful for its cost first
    std::vector<MissingRange> missing; ///< with ranges of another tool alone; in graph order
    Method method = Method::mse;
    WeightRange weight_range = WeightRange::full;
    std::int64_t converted_from = 0; ///< the opset before lifting to 13; 0 where that was not needed
    Json document;                   ///< {"kind": "quantize", "version": 1, target, counts, decisions, ...}
};

/// Lifts the model to the opset that scales by channel need, where it is older. Returns the opset it had; 0 where
/// nothing was done. Names of values and nodes stay. Errors: what the conversion gives, with the cure.
Result<std::int64_t> raise_opset(Model& model);

/// The whole step: check that the ranges belong to the model, lift the opset where needed, infer shapes, plan, insert,
/// and pass the result through the ONNX checker.
/// Ranges of another tool (RangesFile::source) need not be complete: what lacks one stays in float and is told in
/// `missing`.
/// Errors: mismatch (ranges of another model), out_of_range (NaN or infinity in a tensor to be quantised),
/// invalid_argument (quantised already, malformed --exclude, an override that is no range around zero, a method for
/// ranges of another tool), not_found (a pattern or an override that names no quantised tensor), unsupported,
/// verification_failed.
Result<QuantizeOutcome> quantize_model(const Model& model, const RangesFile& ranges, const QuantizeOptions& options);

} // namespace lathe
