#include "quantize/quantize.hpp"

#include <cmath>
#include <map>

#include "calibrate/guard.hpp"
#include "onnx/onnx.hpp"
#include "quantize/insert.hpp"
#include "quantize/tensor_range.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"

namespace lathe {
namespace {

constexpr std::int64_t needed_opset = 13;

/// Identity of what was measured, for provenance.
std::string digest_of(const std::map<std::string, Range>& ranges) {
    Hasher hasher;
    for (const auto& [name, range] : ranges) {
        hasher.update(name);
        hasher.update(std::as_bytes(std::span(&range.low, 1)));
        hasher.update(std::as_bytes(std::span(&range.high, 1)));
    }
    return hasher.hex();
}

Result<void> refuse_nonfinite(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges) {
    for (const ScaleGroup& group : plan.groups) {
        for (const std::string& name : group.ranges) {
            const TensorRange* tensor = range_behind(graph, ranges, name);
            if (tensor == nullptr) continue; // reported by the insertion, with its cure
            const std::uint64_t broken = tensor->histogram.nans() + tensor->histogram.infinities();
            if (broken == 0) continue;
            return Error{ErrorCode::out_of_range,
                         "the tensor showed " + std::to_string(tensor->histogram.nans()) + " NaN and " +
                             std::to_string(tensor->histogram.infinities()) + " infinite values during calibration",
                         name, "calibrate on sound data, or leave out the nodes that read it with --exclude"};
        }
    }
    return {};
}

Json document_of(const QuantizeOutcome& outcome, const RangesFile& ranges) {
    Json json = Json::object();
    json["kind"] = "quantize";
    json["version"] = 1;
    json["target"] = to_string(outcome.plan.target);
    json["method"] = to_string(outcome.method);
    json["samples"] = ranges.samples_seen;
    json["reduced_range"] = outcome.reduced_range;
    json["opset"] = outcome.model.opset();
    if (outcome.converted_from != 0) json["converted_from_opset"] = outcome.converted_from;
    json["quantized_nodes"] = outcome.plan.quantized_nodes;
    json["total_nodes"] = outcome.plan.heavy_nodes;
    json["activation_tensors"] = outcome.plan.tensors.size();
    json["weight_tensors"] = outcome.plan.weights.size();
    json["remarks"] = outcome.plan.remarks;
    json["decisions"] = to_json(outcome.plan.decisions);
    return json;
}

} // namespace

bool has_vnni() {
    const Machine machine = this_machine();
    for (const char* flag : {"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"}) {
        if (machine.has_flag(flag)) return true;
    }
    return false;
}

Result<QuantizeOutcome> quantize_model(const Model& model, const RangesFile& ranges, const QuantizeOptions& options) {
    LATHE_CHECK(validate_ranges(ranges, model));
    QuantizeOutcome outcome;
    Model prepared = model;
    if (prepared.opset() < needed_opset) {
        outcome.converted_from = prepared.opset();
        auto converted = convert_opset(prepared, needed_opset);
        if (!converted) {
            converted.error().hint = "scales by channel need opset 13: export the model again with --opset 18";
            return std::move(converted).error();
        }
    }
    // Types tell which edges are float32. Where inference fails, what is known already must do.
    if (Model inferred = prepared; infer_shapes(inferred)) prepared = std::move(inferred);

    const TargetProfile& profile = profile_of(options.target);
    LATHE_TRY(outcome.plan, plan_quantization(prepared, profile, options.placement));
    LATHE_CHECK(refuse_nonfinite(prepared.graph, outcome.plan, ranges));

    outcome.method = options.method.value_or(ranges.method);
    EstimateOptions estimation = options.estimate;
    estimation.guard = ranges.options.guard;
    std::vector<CalibrationFinding> collapsed = options.method ? std::vector<CalibrationFinding>{} : ranges.findings;
    std::map<std::string, Range> values;
    for (const ScaleGroup& group : outcome.plan.groups) {
        for (const std::string& name : group.ranges) {
            const TensorRange* tensor = range_behind(prepared.graph, ranges, name);
            if (tensor == nullptr) continue;
            if (group.whole_range || !options.method) {
                values[name] = range_in_group(*tensor, group, ranges, profile);
                continue;
            }
            std::optional<Collapse> collapse;
            values[name] =
                guarded_range(tensor->histogram, *options.method, format_of(group, profile), estimation, &collapse);
            if (!collapse) continue;
            collapsed.push_back(finding_of(*collapse, *tensor, *options.method, estimation));
            collapsed.back().tensor = name;
        }
    }
    for (const auto& [name, range] : options.overrides) {
        const auto found = values.find(name);
        if (found == values.end()) {
            return Error{ErrorCode::not_found, "a range was given for what is no quantised tensor", name,
                         "--explain names the tensors"};
        }
        if (!std::isfinite(range.low) || !std::isfinite(range.high) || range.low > 0.0F || range.high < 0.0F) {
            return Error{ErrorCode::invalid_argument, "a range must be finite and hold zero", name,
                         "give it as tensor=low,high with low <= 0 <= high"};
        }
        found->second = range;
    }
    for (const CalibrationFinding& finding : collapsed) {
        if (finding.name == collapsed_range && values.contains(finding.tensor)) {
            outcome.plan.remarks.push_back(finding.tensor + ": " + finding.detail);
        }
    }
    InsertOptions insert;
    insert.reduce_range = options.reduce_range == ReduceRange::on || (options.reduce_range == ReduceRange::automatic &&
                                                                      profile.reduce_range_without_vnni && !has_vnni());
    outcome.reduced_range = insert.reduce_range;
    insert.provenance["method"] = to_string(outcome.method);
    insert.provenance["samples"] = ranges.samples_seen;
    insert.provenance["data_digest"] = ranges.key.data;
    insert.provenance["ranges_digest"] = digest_of(values);
    LATHE_TRY(outcome.model, insert_quantization(prepared, outcome.plan, values, insert));
    LATHE_CHECK(check_onnx(outcome.model));
    outcome.document = document_of(outcome, ranges);
    return outcome;
}

} // namespace lathe
