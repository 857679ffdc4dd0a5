#include "autocast/autocast.hpp"

#include <algorithm>
#include <utility>

#include "onnx/onnx.hpp"
#include "passes/passes.hpp"
#include "support/json.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

/// A lifted model if ONNX's converter can lift it; the model as it is, and why, if not.
Model lifted(const Model& model, AutocastOutcome& outcome) {
    Model lifted = model;
    if (auto converted = convert_opset(lifted, bfloat16_opset); !converted) {
        outcome.remarks.push_back("opset " + std::to_string(model.opset()) + " stays, so operators without bfloat16 " +
                                  "there stay FP32: " + converted.error().message);
        return model;
    }
    outcome.converted_from = model.opset();
    return lifted;
}

} // namespace

Result<Model> prepared_for_casting(const Model& model) {
    Model prepared = model;
    PassContext context;
    context.opset = prepared.opset();
    LATHE_CHECK(passes::constant_nodes(prepared.graph, context));
    LATHE_CHECK(infer_shapes(prepared));
    return prepared;
}

Result<AutocastOutcome> autocast_model(const Model& model, const RangesFile& ranges, const AutocastOptions& options) {
    LATHE_CHECK(validate_ranges(ranges, model));
    AutocastOutcome outcome;
    const bool lift = options.format.type == DataType::bfloat16 && model.opset() < bfloat16_opset;
    LATHE_TRY(const Model prepared, prepared_for_casting(lift ? lifted(model, outcome) : model));
    LATHE_TRY(outcome.plan, plan_autocast(prepared, ranges, options));
    for (const TensorFacts& facts : outcome.plan.tensors) {
        if (facts.masked && facts.constant)
            outcome.remarks.push_back(describe_clamped(facts.tensor, options.format.type));
    }
    LATHE_TRY(CastModel made, insert_casts(prepared, outcome.plan, options));
    outcome.model = std::move(made.model);
    outcome.casts = made.casts;
    outcome.constants = made.constants;
    outcome.cast_nodes = static_cast<std::size_t>(
        std::ranges::count_if(outcome.plan.decisions, [](const auto& decision) { return decision.is_cast(); }));
    outcome.kept_nodes = outcome.plan.decisions.size() - outcome.cast_nodes;

    Json provenance = {{"format", options.format.name},
                       {"cast_nodes", outcome.cast_nodes},
                       {"fp32_nodes", outcome.kept_nodes},
                       {"samples", ranges.samples_seen},
                       {"data_digest", ranges.key.data}};
    outcome.model.set_metadata("lathe.autocast", provenance.dump());
    LATHE_CHECK(check_onnx(outcome.model, {.full = true}));
    return outcome;
}

} // namespace lathe
