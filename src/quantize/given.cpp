#include "quantize/given.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "calibrate/model_key.hpp"
#include "onnx/onnx.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"
#include "support/near_name.hpp"

namespace lathe {
namespace {

/// As many as a person reads; each costs a pass over the model's names.
constexpr std::size_t hints_given = 8;

/// Names by which the top graph knows its values, in graph order.
std::vector<std::string> value_names(const Graph& graph) {
    std::vector<std::string> names;
    for (const ValueInfo& input : graph.inputs)
        names.push_back(input.name);
    for (const auto& node : graph.nodes) {
        std::ranges::copy_if(node->outputs, std::back_inserter(names), [](const auto& name) { return !name.empty(); });
    }
    return names;
}

bool is_internal(std::string_view name) { return name.starts_with("(Unnamed Layer*"); }

Error none_matches(const GivenRanges& given, const GivenMatch& match) {
    std::string names;
    for (const UnknownTensor& each : match.unknown) {
        if (each.nearest.empty() || names.size() > 200) continue;
        names += (names.empty() ? "" : ", ") + each.name + " (the model has " + each.nearest + ")";
    }
    if (names.empty() && !match.unknown.empty()) names = match.unknown.front().name + ", ...";
    return {ErrorCode::mismatch, "the model has none of the tensors that the file tells of: " + names, given.source,
            "take the ONNX that the file was made from: export and simplify may have renamed tensors"};
}

/// What the file knows of the tensor, in the two formats.
TensorRange in_formats(const GivenRange& range, bool magnitudes_alone, bool never_negative) {
    TensorRange tensor;
    tensor.name = range.name;
    tensor.int8 = range.range;
    tensor.uint8 = range.range;
    if (magnitudes_alone && never_negative) tensor.uint8.low = 0.0F;
    return tensor;
}

} // namespace

Result<MatchedRanges> match_given(const Model& model, const GivenRanges& given) {
    const std::vector<std::string> names = value_names(model.graph);
    const std::unordered_set<std::string> activations(names.begin(), names.end());
    std::unordered_map<std::string, const Node*> producers;
    for (const auto& node : model.graph.nodes) {
        for (const std::string& output : node->outputs)
            producers.emplace(output, node.get());
    }
    MatchedRanges result;
    RangesFile& ranges = result.ranges;
    ranges.source = given.source;
    ranges.method = Method::minmax;
    ranges.key.model = calibration_key(model);
    for (const GivenRange& each : given.tensors) {
        if (activations.contains(each.name)) {
            const auto producer = producers.find(each.name);
            const bool never_negative = producer != producers.end() && starts_at_zero(model.graph, *producer->second);
            const bool magnitudes_alone = -each.range.low == each.range.high;
            ranges.tensors.push_back(in_formats(each, magnitudes_alone, never_negative));
            ++result.match.matched;
        } else if (model.graph.initializers.contains(each.name)) {
            ++result.match.matched; // weights are quantised by channel, from their values
        } else if (is_internal(each.name)) {
            ++result.match.internal;
        } else {
            UnknownTensor unknown{each.name, each.line, ""};
            if (result.match.unknown.size() < hints_given) unknown.nearest = nearest_name(each.name, names);
            result.match.unknown.push_back(std::move(unknown));
        }
    }
    if (ranges.tensors.empty()) return none_matches(given, result.match);
    return result;
}

Json to_json(const GivenMatch& match) {
    Json unknown = Json::array();
    for (const UnknownTensor& each : match.unknown) {
        Json item{{"tensor", each.name}};
        if (each.line != 0) item["line"] = each.line;
        if (!each.nearest.empty()) item["nearest"] = each.nearest;
        unknown.push_back(std::move(item));
    }
    return {{"matched", match.matched}, {"internal", match.internal}, {"unknown", std::move(unknown)}};
}

std::vector<std::string> float_activations(const Model& model) {
    Model inferred = model;
    if (!infer_shapes(inferred)) inferred = model;
    const EdgeIndex index(inferred.graph);
    std::vector<std::string> names = value_names(inferred.graph);
    std::erase_if(names, [&](const std::string& name) {
        return index.is_constant(name) || inferred.graph.initializers.contains(name) || !index.is_float32(name, true);
    });
    return names;
}

} // namespace lathe
