#include "lathe/quantize.hpp"

#include "api/calibrate.hpp"
#include "api/correct.hpp"
#include "api/model_data.hpp"
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

Result<QuantizeOptions> options_of(const QuantizeRequest& request) {
    QuantizeOptions options;
    options.target = request.target;
    options.placement = placement_of(request);
    options.noisy_in_float = request.noisy_in_float;
    options.method = request.method;
    options.estimate.percentile = request.percentile;
    LATHE_CHECK(check(options.estimate));
    options.weight_range = request.weight_range;
    for (const RangeOverride& each : request.overrides)
        options.overrides.insert_or_assign(each.tensor, Range{each.low, each.high});
    return options;
}

Result<CorrectOptions> corrections_of(const QuantizeRequest& request) {
    const std::string place = "QuantizeRequest::effort " + std::to_string(request.effort);
    if (request.effort < 0 || request.effort > 3) {
        return Error{ErrorCode::invalid_argument, "there is no such effort", place, "give 0, 1, 2 or 3"};
    }
    const bool any_data = request.data && (!request.data->path.empty() || !request.data->arrays.empty());
    if (request.effort > 0 && !any_data) {
        return Error{ErrorCode::invalid_argument, "correcting the quantisation needs samples", place,
                     "give QuantizeRequest::data, best what the model was calibrated on, or effort 0"};
    }
    CorrectOptions options = options_of_effort(request.effort);
    if (request.method) options.auto_ranges = false;
    options.threads = request.threads;
    return options;
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
    LATHE_TRY(const QuantizeOptions options, options_of(request));
    LATHE_TRY(const CorrectOptions correcting, corrections_of(request));
    CorrectData data;
    if (request.data) {
        data.data = request.data->path;
        data.columns = request.data->columns;
        data.arrays = request.data->arrays;
    }
    LATHE_TRY(data.preprocess, PreprocessChoice(request.preprocess).resolve(input_specs(model)));
    Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
    LATHE_TRY(CorrectOutcome corrected,
              quantize_on_data(model, calibration.impl().ranges, options, correcting, data, progress));
    QuantizeOutcome& outcome = corrected.quantized;
    QuantizedModel quantized;
    quantized.plan = plan_for_caller(outcome.plan);
    quantized.method = outcome.method;
    quantized.weight_range = outcome.weight_range;
    quantized.model = ModelPtr(new Model(std::move(outcome.model)));
    for (const Correction& each : corrected.corrections) {
        quantized.corrections.push_back(
            {each.method, each.kept, each.detail, each.before.sqnr_db, each.after.sqnr_db, each.seconds});
    }
    return quantized;
}

} // namespace lathe
