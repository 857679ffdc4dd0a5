#include "autocast/document.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace lathe {

namespace {

ShareBounds share(const CountBounds& counts, std::uint64_t of) {
    if (of == 0) return {};
    const auto whole = static_cast<double>(of);
    return {static_cast<double>(counts.least) / whole, static_cast<double>(counts.most) / whole};
}

AutocastDecision told_of(const CastDecision& decision) {
    AutocastDecision told;
    told.node = decision.node;
    told.op = decision.op_type;
    told.cast = decision.is_cast();
    told.reason = to_string(decision.reason);
    told.explanation = explain(decision.reason);
    told.detail = decision.detail;
    told.absmax = decision.absmax;
    if (!decision.reduction) return told;
    CastSum& sum = told.sum.emplace();
    sum.terms = decision.reduction->depth;
    sum.assumed = decision.reduction->assumed;
    sum.in_fp32 = decision.reduction->wide;
    sum.error_bound = decision.error_bound;
    sum.largest_product = decision.largest_product;
    sum.largest_sum = decision.largest_sum;
    return told;
}

std::vector<OverflowingTensor> overflow_of(const AutocastPlan& plan, double largest) {
    std::vector<OverflowingTensor> found;
    for (const TensorFacts& facts : plan.tensors) {
        if (facts.absmax > largest)
            found.push_back({facts.tensor, facts.constant, facts.absmax, share(facts.over, facts.values)});
    }
    std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.absmax > b.absmax; });
    return found;
}

std::vector<OverflowingNode> inside_overflow_of(const AutocastPlan& plan, double largest) {
    std::vector<OverflowingNode> found;
    for (const CastDecision& decision : plan.decisions) {
        if (!decision.reduction) continue;
        if (std::max(decision.largest_product, decision.largest_sum) <= largest) continue;
        found.push_back({decision.node, decision.op_type, decision.largest_product, decision.largest_sum,
                         decision.reduction->wide || !decision.is_cast()});
    }
    return found;
}

Subnormals subnormals_of(const AutocastPlan& plan, bool constant) {
    Subnormals told;
    CountBounds subnormal;
    CountBounds flushed;
    for (const TensorFacts& facts : plan.tensors) {
        if (facts.constant != constant) continue;
        told.values += facts.values;
        subnormal.least += facts.subnormal.least;
        subnormal.most += facts.subnormal.most;
        flushed.least += facts.flushed.least;
        flushed.most += facts.flushed.most;
        if (facts.subnormal.most == 0) continue;
        told.tensors.push_back({facts.tensor, facts.absmax, share(facts.subnormal, facts.values),
                                share(facts.flushed, facts.values), facts.relative_error});
    }
    std::ranges::stable_sort(told.tensors,
                             [](const auto& a, const auto& b) { return a.relative_error > b.relative_error; });
    told.subnormal = share(subnormal, told.values);
    told.flushed = share(flushed, told.values);
    return told;
}

Json to_json(const ShareBounds& share) { return Json::array({share.least, share.most}); }

Json to_json(const AutocastDecision& decision) {
    Json row = {{"node", decision.node},
                {"op_type", decision.op},
                {"cast", decision.cast},
                {"reason", decision.reason},
                {"explanation", decision.explanation},
                {"detail", decision.detail},
                {"absmax", decision.absmax}};
    if (!decision.sum) return row;
    const CastSum& sum = *decision.sum;
    row["reduction"] = {{"depth", sum.terms == 0 ? Json() : Json(sum.terms)},
                        {"depth_assumed", sum.assumed},
                        {"sums_in_fp32", sum.in_fp32},
                        {"error_bound", sum.error_bound},
                        {"largest_product", sum.largest_product},
                        {"largest_sum", sum.largest_sum}};
    return row;
}

Json to_json(const OverflowingTensor& tensor) {
    return {{"tensor", tensor.tensor},
            {"constant", tensor.constant},
            {"absmax", tensor.absmax},
            {"share", to_json(tensor.share)}};
}

Json to_json(const OverflowingNode& node) {
    return {{"node", node.node},
            {"op_type", node.op},
            {"largest_product", node.largest_product},
            {"largest_sum", node.largest_sum},
            {"held_in_fp32", node.held_in_fp32}};
}

Json to_json(const SubnormalTensor& tensor) {
    return {{"tensor", tensor.tensor},
            {"absmax", tensor.absmax},
            {"subnormal", to_json(tensor.subnormal)},
            {"flushed", to_json(tensor.flushed)},
            {"relative_error", tensor.relative_error}};
}

template <class T>
Json rows_of(const std::vector<T>& values) {
    Json rows = Json::array();
    for (const T& value : values)
        rows.push_back(to_json(value));
    return rows;
}

Json to_json(const Subnormals& subnormals) {
    return {{"values", subnormals.values},
            {"subnormal", to_json(subnormals.subnormal)},
            {"flushed", to_json(subnormals.flushed)},
            {"tensors", rows_of(subnormals.tensors)}};
}

} // namespace

void tell(const AutocastPlan& plan, const AutocastOptions& options, AutocastResult& result) {
    result.format = options.format.name;
    result.largest = options.format.largest;
    result.smallest_normal = options.format.smallest_normal;
    for (const CastDecision& decision : plan.decisions)
        result.decisions.push_back(told_of(decision));
    result.overflow = overflow_of(plan, options.format.largest);
    result.inside_overflow = inside_overflow_of(plan, options.format.largest);
    result.constants = subnormals_of(plan, true);
    result.activations = subnormals_of(plan, false);
}

Json to_json(const AutocastResult& result, const AutocastOptions& options) {
    Json document{
        {"kind", "autocast"},
        {"version", 1},
        {"by", "range"},
        {"format", result.format},
        {"largest", result.largest},
        {"smallest_normal", result.smallest_normal},
        {"headroom", options.headroom},
        {"error_limit", options.error_limit},
        {"io_type", to_string(options.io_type)},
        {"overflow", {{"tensors", rows_of(result.overflow)}, {"inside_nodes", rows_of(result.inside_overflow)}}},
        {"subnormal", {{"constants", to_json(result.constants)}, {"activations", to_json(result.activations)}}},
        {"decisions", rows_of(result.decisions)},
        {"samples", result.samples},
        {"opset", result.opset},
        {"cast_nodes", result.cast_nodes},
        {"fp32_nodes", result.fp32_nodes},
        {"added_casts", result.casts},
        {"constants_in_16_bits", result.constants_in_16_bits},
        {"remarks", result.remarks}};
    if (result.converted_from != 0) document["converted_from_opset"] = result.converted_from;
    return document;
}

} // namespace lathe
