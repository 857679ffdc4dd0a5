#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autocast/autocast.hpp"
#include "calibrate/model_key.hpp"
#include "graph/text.hpp"
#include "quantize/given.hpp"

namespace lathe::test {

inline Model cast_graph(const std::string& text) {
    auto model = parse_graph_text(text);
    if (!model) {
        ADD_FAILURE() << model.error().describe();
        return {};
    }
    model->graph.name = "tested"; // the checker wants one
    auto prepared = prepared_for_casting(*model);
    if (!prepared) {
        ADD_FAILURE() << prepared.error().describe();
        return {};
    }
    return *std::move(prepared);
}

/// Ranges in which every floating-point tensor was seen to hold 1 and -1, or the values given for it.
inline RangesFile seen(const Model& model, const std::map<std::string, std::vector<float>>& values = {}) {
    RangesFile ranges;
    ranges.key.model = calibration_key(model);
    for (const std::string& name : float_activations(model)) {
        TensorRange tensor;
        tensor.name = name;
        const auto given = values.find(name);
        tensor.histogram.observe(given == values.end() ? std::vector<float>{1.0F, -1.0F} : given->second);
        ranges.tensors.push_back(std::move(tensor));
    }
    return ranges;
}

/// Node label to reason.
inline std::map<std::string, std::string> reasons(const AutocastPlan& plan) {
    std::map<std::string, std::string> found;
    for (const CastDecision& decision : plan.decisions)
        found[decision.node] = to_string(decision.reason);
    return found;
}

inline AutocastPlan planned(const Model& model, const RangesFile& ranges, const AutocastOptions& options = {}) {
    auto plan = plan_autocast(model, ranges, options);
    if (!plan) {
        ADD_FAILURE() << plan.error().describe();
        return {};
    }
    return *std::move(plan);
}

} // namespace lathe::test
