#include "sensitivity/document.hpp"

namespace lathe {

namespace {

Json describe(const LayerSensitivity& layer) {
    return {{"node", layer.node}, {"op_type", layer.op_type}, {"role", layer.role}, {"macs", layer.macs}};
}

} // namespace

Json to_json(const Sensitivity& sensitivity, DamageMetric metric) {
    Json layers = Json::array();
    std::size_t rank = 0;
    for (const RankedLayer& each : rank_layers(sensitivity, metric)) {
        const LayerSensitivity& layer = sensitivity.layers[each.layer];
        Json json = describe(layer);
        json["rank"] = ++rank;
        json["quantized"] = true;
        json["macs_share"] = each.macs_share;
        json["damage"] = each.damage;
        json["damage_share"] = each.damage_share;
        json.update(to_json(layer.score));
        layers.push_back(std::move(json));
    }
    for (const LayerSensitivity& layer : sensitivity.layers) {
        if (layer.float_reason.empty()) continue;
        Json json = describe(layer);
        json["quantized"] = false;
        json["reason"] = layer.float_reason;
        layers.push_back(std::move(json));
    }
    Json outstanding = Json::array();
    for (const RankedLayer& each : outstanding_layers(sensitivity, metric))
        outstanding.push_back(sensitivity.layers[each.layer].node);
    Json json{{"kind", "sensitivity"},
              {"version", 1},
              {"metric", to_string(metric)},
              {"samples", sensitivity.samples},
              {"classes", sensitivity.classes},
              {"output_kind", to_string(sensitivity.output_kind)},
              {"batch_size", sensitivity.batch_size},
              {"segments", sensitivity.segments},
              {"seconds", sensitivity.seconds},
              {"float_seconds", sensitivity.float_seconds},
              {"resumed_samples", sensitivity.resumed_samples},
              {"everything", to_json(sensitivity.everything)},
              {"layers", std::move(layers)},
              {"outstanding", std::move(outstanding)},
              {"advice", advise(sensitivity, metric)}};
    if (const auto& task = sensitivity.everything.task) {
        json["task"] = {{"name", sensitivity.task},
                        {"metric", sensitivity.task_metric},
                        {"labelled", sensitivity.task_labelled},
                        {"left_out", sensitivity.left_out},
                        {"reference", task->reference},
                        {"everything", task->metric},
                        {"delta", 0.0 - task->loss()},
                        {"delta_ci95", {sensitivity.task_change.low, sensitivity.task_change.high}},
                        {"agreement", task->agreement}};
    }
    return json;
}

} // namespace lathe
