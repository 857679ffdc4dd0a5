#include <algorithm>
#include <cstdint>

#include "autocast/autocast.hpp"

namespace lathe {

namespace {

Json share(const CountBounds& counts, std::uint64_t of) {
    if (of == 0) return Json::array({0.0, 0.0});
    const auto whole = static_cast<double>(of);
    return Json::array({static_cast<double>(counts.least) / whole, static_cast<double>(counts.most) / whole});
}

/// Tensors whose values pass the format, measured or constant, largest first.
Json overflow_of(const AutocastPlan& plan, const AutocastOptions& options) {
    std::vector<const TensorFacts*> found;
    for (const TensorFacts& facts : plan.tensors) {
        if (facts.absmax > options.format.largest) found.push_back(&facts);
    }
    std::ranges::stable_sort(found, [](const auto* a, const auto* b) { return a->absmax > b->absmax; });
    Json rows = Json::array();
    for (const TensorFacts* facts : found) {
        rows.push_back({{"tensor", facts->tensor},
                        {"constant", facts->constant},
                        {"absmax", facts->absmax},
                        {"share", share(facts->over, facts->values)}});
    }
    return rows;
}

/// Nodes whose products or partial sums may pass the format, whatever holds them.
Json inside_overflow_of(const AutocastPlan& plan, const AutocastOptions& options) {
    Json rows = Json::array();
    for (const CastDecision& decision : plan.decisions) {
        if (!decision.reduction) continue;
        const double largest = std::max(decision.largest_product, decision.largest_sum);
        if (largest <= options.format.largest) continue;
        rows.push_back({{"node", decision.node},
                        {"op_type", decision.op_type},
                        {"largest_product", decision.largest_product},
                        {"largest_sum", decision.largest_sum},
                        {"held_in_fp32", decision.reduction->wide || !decision.is_cast()}});
    }
    return rows;
}

/// All constants, or all measured tensors, together, and the worst of them one by one.
Json subnormals_of(const AutocastPlan& plan, bool constant) {
    CountBounds subnormal;
    CountBounds flushed;
    std::uint64_t values = 0;
    std::vector<const TensorFacts*> worst;
    for (const TensorFacts& facts : plan.tensors) {
        if (facts.constant != constant) continue;
        values += facts.values;
        subnormal.least += facts.subnormal.least;
        subnormal.most += facts.subnormal.most;
        flushed.least += facts.flushed.least;
        flushed.most += facts.flushed.most;
        if (facts.subnormal.most > 0) worst.push_back(&facts);
    }
    std::ranges::stable_sort(worst, [](const auto* a, const auto* b) { return a->relative_error > b->relative_error; });
    Json rows = Json::array();
    for (const TensorFacts* facts : worst) {
        rows.push_back({{"tensor", facts->tensor},
                        {"absmax", facts->absmax},
                        {"subnormal", share(facts->subnormal, facts->values)},
                        {"flushed", share(facts->flushed, facts->values)},
                        {"relative_error", facts->relative_error}});
    }
    return {{"values", values},
            {"subnormal", share(subnormal, values)},
            {"flushed", share(flushed, values)},
            {"tensors", rows}};
}

Json to_json(const CastDecision& decision) {
    Json row = {{"node", decision.node},
                {"op_type", decision.op_type},
                {"cast", decision.is_cast()},
                {"reason", to_string(decision.reason)},
                {"explanation", explain(decision.reason)},
                {"detail", decision.detail},
                {"absmax", decision.absmax}};
    if (!decision.reduction) return row;
    const Reduction& reduction = *decision.reduction;
    row["reduction"] = {{"depth", reduction.depth == 0 ? Json() : Json(reduction.depth)},
                        {"depth_assumed", reduction.assumed},
                        {"sums_in_fp32", reduction.wide},
                        {"error_bound", decision.error_bound},
                        {"largest_product", decision.largest_product},
                        {"largest_sum", decision.largest_sum}};
    return row;
}

} // namespace

Json to_json(const AutocastPlan& plan, const AutocastOptions& options) {
    Json decisions = Json::array();
    for (const CastDecision& decision : plan.decisions)
        decisions.push_back(to_json(decision));
    return {
        {"kind", "autocast"},
        {"version", 1},
        {"by", "range"},
        {"format", options.format.name},
        {"largest", options.format.largest},
        {"smallest_normal", options.format.smallest_normal},
        {"headroom", options.headroom},
        {"error_limit", options.error_limit},
        {"io_type", to_string(options.io_type)},
        {"overflow", {{"tensors", overflow_of(plan, options)}, {"inside_nodes", inside_overflow_of(plan, options)}}},
        {"subnormal", {{"constants", subnormals_of(plan, true)}, {"activations", subnormals_of(plan, false)}}},
        {"decisions", decisions}};
}

} // namespace lathe
