#include "quantize/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "calibrate/guard.hpp"
#include "onnx/onnx.hpp"
#include "quantize/insert.hpp"
#include "quantize/scale_groups.hpp"
#include "quantize/tensor_range.hpp"
#include "support/hash.hpp"

namespace lathe {
namespace {

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

/// The plan that the ranges suffice for. Where one is missing that another tool should have written, the nodes that
/// would read int8 by it stay in float, and the plan is made again: their readers may then want other tensors.
Result<QuantizationPlan> plan_within(const Model& model, const TargetProfile& profile, const QuantizeOptions& options,
                                     PlacementOptions placement, const RangesFile& ranges,
                                     std::vector<MissingRange>& missing) {
    while (true) {
        LATHE_TRY(QuantizationPlan plan, plan_quantization(model, profile, placement));
        if (ranges.source.empty()) return plan;
        std::vector<std::vector<std::string>> lacking(plan.groups.size());
        for (std::size_t i = 0; i < plan.groups.size(); ++i) {
            std::ranges::copy_if(plan.groups[i].ranges, std::back_inserter(lacking[i]), [&](const std::string& name) {
                return range_behind(model.graph, ranges, name) == nullptr && !options.overrides.contains(name);
            });
        }
        const std::size_t before = placement.unranged.size();
        for (const QuantizedTensor& tensor : plan.tensors) {
            std::vector<std::string> nodes;
            for (const Edge& reader : tensor.readers) {
                if (lacking[tensor.group].empty() || !placement.unranged.insert(reader.node).second) continue;
                nodes.push_back(model.graph.nodes[reader.node]->label());
            }
            if (nodes.empty()) continue;
            const auto& names = lacking[tensor.group];
            const bool own = std::ranges::find(names, tensor.name) != names.end();
            missing.push_back({own ? tensor.name : names.front(), std::move(nodes)});
        }
        if (placement.unranged.size() == before) return plan;
    }
}

/// The range of each tensor that the plan's groups unite; `collapsed` gains what the guard found.
std::map<std::string, Range> ranges_for(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
                                        const QuantizeOptions& options, std::vector<CalibrationFinding>* collapsed) {
    EstimateOptions estimation = options.estimate;
    estimation.guard = ranges.options.guard;
    std::map<std::string, Range> values;
    for (const ScaleGroup& group : plan.groups) {
        for (const std::string& name : group.ranges) {
            const TensorRange* tensor = range_behind(graph, ranges, name);
            if (tensor == nullptr) {
                // A range by hand may stand in for one that another tool did not write.
                if (const auto hand = options.overrides.find(name);
                    !ranges.source.empty() && hand != options.overrides.end()) {
                    values[name] = hand->second;
                }
                continue;
            }
            if (group.whole_range || !options.method) {
                values[name] = range_in_group(*tensor, group, ranges, plan);
                continue;
            }
            std::optional<Collapse> collapse;
            values[name] =
                guarded_range(tensor->histogram, *options.method, format_of(group, plan), estimation, &collapse);
            if (!collapse || collapsed == nullptr) continue;
            collapsed->push_back(finding_of(*collapse, *tensor, *options.method, estimation));
            collapsed->back().tensor = name;
        }
    }
    return values;
}

Json to_json(const std::vector<MissingRange>& missing) {
    Json array = Json::array();
    for (const MissingRange& each : missing)
        array.push_back({{"tensor", each.tensor}, {"nodes", each.nodes}});
    return array;
}

Json document_of(const QuantizeOutcome& outcome, const RangesFile& ranges) {
    Json json = Json::object();
    json["kind"] = "quantize";
    json["version"] = 1;
    json["target"] = to_string(outcome.plan.target);
    json["method"] = ranges.source.empty() ? to_string(outcome.method) : "given";
    if (!ranges.source.empty()) {
        json["ranges_from"] = ranges.source;
        json["missing_ranges"] = to_json(outcome.missing);
    }
    json["samples"] = ranges.samples_seen;
    json["weight_granularity"] = to_string(outcome.plan.granularity);
    json["activation_scheme"] = to_string(scheme_of(outcome.plan.activations));
    json["weight_range"] = to_string(outcome.weight_range);
    json["opset"] = outcome.model.opset();
    if (outcome.converted_from != 0) json["converted_from_opset"] = outcome.converted_from;
    json["quantized_nodes"] = outcome.plan.quantized_nodes;
    json["total_nodes"] = outcome.plan.heavy_nodes;
    json["activation_tensors"] = outcome.plan.tensors.size();
    json["weight_tensors"] = outcome.plan.weights.size();
    json["too_noisy"] = Json::array();
    for (const LayerNoise& layer : outcome.in_float) {
        json["too_noisy"].push_back({{"node", layer.label},
                                     {"noise", layer.noise},
                                     {"noise_share", layer.share},
                                     {"cost", layer.cost},
                                     {"last", layer.last}});
    }
    json["remarks"] = outcome.plan.remarks;
    json["decisions"] = to_json(outcome.plan.decisions);
    return json;
}

} // namespace

Result<std::int64_t> raise_opset(Model& model) {
    const std::int64_t before = model.opset();
    if (before >= qdq_opset) return 0;
    auto converted = convert_opset(model, qdq_opset);
    if (!converted) {
        converted.error().hint = "scales by channel need opset 13: export the model again with --opset 18";
        return std::move(converted).error();
    }
    return before;
}

Result<QuantizeOutcome> quantize_model(const Model& model, const RangesFile& ranges, const QuantizeOptions& options) {
    LATHE_CHECK(validate_ranges(ranges, model));
    const bool given = !ranges.source.empty();
    if (given && options.method) {
        return Error{ErrorCode::invalid_argument, "a range estimator needs histograms, which this file does not have",
                     ranges.source, "leave --method out, or calibrate: lathe calibrate MODEL --data DIR"};
    }
    QuantizeOutcome outcome;
    Model prepared = model;
    LATHE_TRY(outcome.converted_from, raise_opset(prepared));
    // Types tell which edges are float32. Where inference fails, what is known already must do.
    if (Model inferred = prepared; infer_shapes(inferred)) prepared = std::move(inferred);

    const TargetProfile& profile = profile_of(options.target);
    PlacementOptions placement = options.placement;
    LATHE_TRY(outcome.plan, plan_within(prepared, profile, options, placement, ranges, outcome.missing));
    LATHE_CHECK(refuse_nonfinite(prepared.graph, outcome.plan, ranges));
    while (!given) {
        const auto values = ranges_for(prepared.graph, outcome.plan, ranges, options, nullptr);
        const auto unlike = unlike_concat(prepared.graph, outcome.plan, ranges, values);
        if (!unlike || !placement.unlike.insert(*unlike).second) break;
        LATHE_TRY(outcome.plan, plan_within(prepared, profile, options, placement, ranges, outcome.missing));
    }
    if (options.noisy_in_float && !given) {
        const auto values = ranges_for(prepared.graph, outcome.plan, ranges, options, nullptr);
        outcome.noise = estimate_layer_noise(prepared.graph, outcome.plan, ranges, values);
        outcome.in_float = noisy_layers(outcome.noise);
        for (LayerNoise& layer : head_layers(prepared.graph, outcome.plan)) {
            const auto same = [&](const LayerNoise& noisy) { return noisy.node == layer.node; };
            if (std::ranges::none_of(outcome.in_float, same)) outcome.in_float.push_back(std::move(layer));
        }
        for (const LayerNoise& layer : outcome.in_float)
            placement.noisy.emplace(layer.node, describe(layer));
        if (!outcome.in_float.empty()) {
            LATHE_TRY(outcome.plan, plan_within(prepared, profile, options, placement, ranges, outcome.missing));
        }
    }

    outcome.method = options.method.value_or(ranges.method);
    std::vector<CalibrationFinding> collapsed = options.method ? std::vector<CalibrationFinding>{} : ranges.findings;
    std::map<std::string, Range> values = ranges_for(prepared.graph, outcome.plan, ranges, options, &collapsed);
    for (const auto& [name, range] : options.chosen) {
        if (const auto found = values.find(name); found != values.end()) found->second = range;
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
    insert.weight_range = options.weight_range.value_or(range_for_this_cpu(profile));
    outcome.weight_range = insert.weight_range;
    insert.provenance["method"] = given ? "given" : to_string(outcome.method);
    if (given) insert.provenance["ranges_from"] = ranges.source;
    insert.provenance["samples"] = ranges.samples_seen;
    insert.provenance["data_digest"] = ranges.key.data;
    insert.provenance["ranges_digest"] = digest_of(values);
    LATHE_TRY(outcome.model, insert_quantization(prepared, outcome.plan, values, insert));
    LATHE_CHECK(check_onnx(outcome.model));
    outcome.document = document_of(outcome, ranges);
    return outcome;
}

} // namespace lathe
