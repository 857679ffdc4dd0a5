#include "lathe/quantize.hpp"

#include "api/calibrate.hpp"
#include "onnx/onnx.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

QuantizePlan plan_for_caller(const QuantizationPlan& plan) {
    QuantizePlan told;
    told.quantized_nodes = plan.quantized_nodes;
    told.heavy_nodes = plan.heavy_nodes;
    told.remarks = plan.remarks;
    for (const EdgeDecision& decision : plan.decisions) {
        told.decisions.push_back({decision.node, decision.op_type, decision.tensor, decision.quantized(),
                                  to_string(decision.reason), explain(decision.reason), decision.detail});
    }
    return told;
}

PlacementOptions placement_of(const QuantizeRequest& request) {
    PlacementOptions placement;
    placement.exclude = request.exclude;
    placement.weights = request.weights;
    placement.activations = request.activations;
    return placement;
}

} // namespace

Result<QuantizePlan> explain_quantization(const Model& model, const QuantizeRequest& request) {
    // Shapes that cannot be inferred are no failure here: the plan says what it misses.
    Model inferred = model;
    const bool known = infer_shapes(inferred).has_value();
    LATHE_TRY(const QuantizationPlan plan,
              plan_quantization(known ? inferred : model, profile_of(request.target), placement_of(request)));
    return plan_for_caller(plan);
}

Result<QuantizedModel> quantize(const Model& model, const Calibration& calibration, const QuantizeRequest& request) {
    QuantizeOptions options;
    options.target = request.target;
    options.placement = placement_of(request);
    options.method = request.method;
    options.estimate.percentile = request.percentile;
    LATHE_CHECK(check(options.estimate));
    if (request.reduce_range) options.reduce_range = *request.reduce_range ? ReduceRange::on : ReduceRange::off;
    LATHE_TRY(QuantizeOutcome outcome, quantize_model(model, calibration.impl().ranges, options));
    QuantizedModel quantized;
    quantized.plan = plan_for_caller(outcome.plan);
    quantized.method = outcome.method;
    quantized.reduced_range = outcome.reduced_range;
    quantized.model = ModelPtr(new Model(std::move(outcome.model)));
    return quantized;
}

} // namespace lathe
