#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.hpp"
#include "quantize/insert.hpp"
#include "quantize/placement.hpp"

namespace lathe::test {

inline Model graph(const std::string& text) {
    auto model = parse_graph_text(text);
    if (!model) {
        ADD_FAILURE() << model.error().describe();
        return {};
    }
    return *std::move(model);
}

inline QuantizationPlan plan(const Model& model, Target target, const PlacementOptions& options = {}) {
    auto planned = plan_quantization(model, profile_of(target), options);
    if (!planned) {
        ADD_FAILURE() << planned.error().describe();
        return {};
    }
    return *std::move(planned);
}

/// The same range for every tensor that the plan asks about.
inline std::map<std::string, Range> same_ranges(const QuantizationPlan& plan, Range range) {
    std::map<std::string, Range> ranges;
    for (const ScaleGroup& group : plan.groups) {
        for (const std::string& name : group.ranges)
            ranges[name] = range;
    }
    return ranges;
}

/// "tensor -> node, node" for every pair, sorted, with its group.
inline std::vector<std::string> pairs(const Model& model, const QuantizationPlan& plan) {
    std::vector<std::string> lines;
    for (const QuantizedTensor& tensor : plan.tensors) {
        std::string line = tensor.name + " ->";
        for (const Edge& edge : tensor.readers)
            line += " " + model.graph.nodes[edge.node]->label();
        lines.push_back(line);
    }
    std::sort(lines.begin(), lines.end());
    return lines;
}

/// "node/input reason" of every activation edge.
inline std::map<std::string, std::string> reasons(const QuantizationPlan& plan) {
    std::map<std::string, std::string> result;
    for (const EdgeDecision& each : plan.decisions)
        result[each.node + "/" + std::to_string(each.edge.input)] = to_string(each.reason);
    return result;
}

/// A constant of `count` floats: 0.5, -1, 0.5, ... so that every channel has an absmax of 1.
inline std::string weight(const std::string& name, const std::string& shape, int count) {
    std::string text = "const %" + name + ": float32[" + shape + "] = {";
    for (int i = 0; i < count; ++i)
        text += std::string(i == 0 ? "" : ", ") + (i % 2 == 0 ? "0.5" : "-1.0");
    return text + "}\n";
}

} // namespace lathe::test
