#include "autocast/decide.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string_view>
#include <unordered_set>

#include "autocast/masks.hpp"
#include "autocast/neighbours.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/op_types.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"

namespace lathe {

namespace {

/// A tensor may lose this many unit roundoffs to underflow, in the L2 norm.
constexpr double underflow_limit = 4;

constexpr std::array<std::string_view, 3> recurrent_ops{"LSTM", "GRU", "RNN"};

bool listed(const auto& names, const Node& node) {
    return node.domain.empty() && std::ranges::find(names, node.op_type) != names.end();
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.5g", value);
    return text;
}

struct Verdict {
    CastReason reason = CastReason::cast;
    std::string detail;
};

class Planner {
public:
    Planner(const Model& model, const RangesFile& ranges, const AutocastOptions& options, std::vector<bool> excluded)
        : graph_(model.graph), opset_(model.opset()), options_(options), format_(options.format),
          excluded_(std::move(excluded)) {
        measure(ranges);
    }

    AutocastPlan run() {
        AutocastPlan plan;
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            if (auto decision = decide(i)) plan.decisions.push_back(std::move(*decision));
        }
        keep_exact(graph_, options_, facts_, plan.decisions);
        keep_islands(graph_, plan.decisions);
        for (auto& [name, facts] : facts_)
            plan.tensors.push_back(std::move(facts));
        return plan;
    }

private:
    void measure(const RangesFile& ranges) {
        for (const auto& [name, tensor] : graph_.initializers) {
            if (tensor.type() != DataType::float32 || graph_.constant(name) == nullptr) continue;
            facts_[name] = facts_of(tensor, format_);
            facts_[name].tensor = name;
        }
        for (const TensorRange& tensor : ranges.tensors)
            facts_[tensor.name] = facts_of(tensor.name, tensor.histogram, format_);
        // What only moves values has the range of what it moves.
        for (const auto& node : graph_.nodes) {
            const std::string& moved = node->output(0);
            if (facts_.contains(moved) || !is_float32(graph_, moved)) continue;
            const auto source = facts_.find(node->input(0));
            if (source == facts_.end() || !is_pass_through(graph_, *node)) continue;
            TensorFacts facts = source->second;
            facts.tensor = moved;
            facts.constant = false;
            facts_.emplace(moved, std::move(facts));
        }
        find_masks(graph_, format_, facts_);
    }

    std::optional<CastDecision> decide(std::size_t index) {
        const Node& node = *graph_.nodes[index];
        const bool floating =
            std::ranges::any_of(node.inputs, [&](const auto& name) { return is_float32(graph_, name); }) ||
            std::ranges::any_of(node.outputs, [&](const auto& name) { return is_float32(graph_, name); });
        if (!floating && !has_subgraph(node)) return std::nullopt;
        CastDecision decision;
        decision.index = index;
        decision.node = node.label();
        decision.op_type = node.op_type;
        for (const auto* names : {&node.inputs, &node.outputs}) {
            for (const std::string& name : *names) {
                const auto found = facts_.find(name);
                if (found == facts_.end() || found->second.constant) continue;
                decision.absmax = std::max(decision.absmax, found->second.absmax);
            }
        }
        decision.reduction = reduction_of(graph_, node, opset_, options_.open_size, options_.accumulators);
        if (decision.reduction) measure_inside(node, decision);
        Verdict verdict = judge(index, node, decision);
        decision.reason = verdict.reason;
        decision.detail = std::move(verdict.detail);
        if (!decision.is_cast()) masks_in_full_.insert(node.outputs.begin(), node.outputs.end());
        return decision;
    }

    double absmax(const std::string& value) const {
        const auto found = facts_.find(value);
        return found == facts_.end() ? 0 : found->second.absmax;
    }

    /// Bounds of what the reduction forms on its way.
    void measure_inside(const Node& node, CastDecision& decision) const {
        const Reduction& reduction = *decision.reduction;
        const auto depth = static_cast<double>(std::max<std::int64_t>(1, reduction.depth));
        const double first = absmax(node.input(0));
        decision.error_bound = error_bound(reduction, format_);
        if (reduction.product) {
            decision.largest_product = first * absmax(node.input(1));
            decision.largest_sum = depth * decision.largest_product;
        } else if (reduction.squares) {
            const auto found = facts_.find(node.input(0));
            decision.largest_product = first * first;
            decision.largest_sum = found == facts_.end() ? 0 : depth * found->second.mean_square;
        } else {
            decision.largest_sum = depth * (reduction.bounded ? 1.0 : first);
        }
    }

    Verdict judge(std::size_t index, const Node& node, const CastDecision& decision) const {
        if (excluded_[index]) return {CastReason::excluded_by_user, ""};
        if (has_subgraph(node)) return {CastReason::has_body, ""};
        if (!node.domain.empty()) return {CastReason::custom_op, node.domain};
        if (listed(recurrent_ops, node)) return {CastReason::recurrent, ""};
        if (auto typed = judge_types(node); typed.reason != CastReason::cast) return typed;
        if (auto range = judge_ranges(node); range.reason != CastReason::cast) return range;
        return decision.reduction ? judge_reduction(decision) : Verdict{};
    }

    Verdict judge_types(const Node& node) const {
        const std::string at = format_.name + (" at opset " + std::to_string(opset_));
        std::unordered_set<std::string> turned; // type parameters that a converted input sets
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (!is_float32(graph_, node.inputs[i])) continue;
            const auto formal = formal_input(node, opset_, i, format_.type);
            if (!formal) return {CastReason::op_fixed_type, "no operator of that name at this opset"};
            if (formal->allowed) turned.insert(formal->parameter);
        }
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
            if (!node.outputs[i].empty() && !graph_.info(node.outputs[i])) {
                return {CastReason::op_fixed_type, "the type of " + node.outputs[i] + " is not known"};
            }
            if (!is_float32(graph_, node.outputs[i])) continue;
            const auto formal = formal_output(node, opset_, i, format_.type);
            if (!formal || !formal->allowed) return {CastReason::op_fixed_type, at};
            if (!turned.contains(formal->parameter) && !node.is("Cast")) {
                return {turned.empty() ? CastReason::makes_float : CastReason::op_fixed_type,
                        "output " + node.outputs[i]};
            }
        }
        const bool gives =
            std::ranges::any_of(node.outputs, [&](const auto& name) { return is_float32(graph_, name); });
        if (!gives && turned.empty()) return {CastReason::op_fixed_type, at};
        return {};
    }

    Verdict judge_ranges(const Node& node) const {
        for (const auto* names : {&node.inputs, &node.outputs}) {
            for (const std::string& name : *names) {
                if (!is_float32(graph_, name)) continue;
                if (names == &node.inputs && !stands_in_half(node, name)) continue;
                const auto found = facts_.find(name);
                if (found == facts_.end()) return {CastReason::not_measured, name};
                if (found->second.masked && !(takes_masks(graph_, node) && masks_in_half(name))) {
                    return {found->second.constant ? CastReason::weight_overflow : CastReason::activation_overflow,
                            name + " holds a mask that would be clamped"};
                }
                if (auto verdict = judge_tensor(found->second); verdict.reason != CastReason::cast) return verdict;
            }
        }
        return {};
    }

    /// A mask is clamped as a constant; what an FP32 node computed of one would become infinite.
    bool masks_in_half(const std::string& value) const { return !masks_in_full_.contains(value); }

    /// Whether any input that reads the value would be converted (scales of Resize stay float32).
    bool stands_in_half(const Node& node, const std::string& value) const {
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (node.inputs[i] != value) continue;
            const auto formal = formal_input(node, opset_, i, format_.type);
            if (formal && formal->allowed) return true;
        }
        return false;
    }

    Verdict judge_tensor(const TensorFacts& facts) const {
        const double reach = facts.constant ? facts.absmax : facts.absmax * options_.headroom;
        if (reach > format_.largest) {
            std::string detail = facts.tensor + " reaches " + number(facts.absmax);
            if (facts.absmax <= format_.largest) detail += ", " + number(options_.headroom) + " times that";
            return {facts.constant ? CastReason::weight_overflow : CastReason::activation_overflow,
                    detail + " is above " + number(format_.largest)};
        }
        if (facts.relative_error > underflow_limit * format_.unit_roundoff) {
            return {facts.constant ? CastReason::weight_underflow : CastReason::activation_underflow,
                    facts.tensor + ", at most " + number(facts.absmax) + ", would lose " +
                        number(facts.relative_error * 100) + " %"};
        }
        return {};
    }

    Verdict judge_reduction(const CastDecision& decision) const {
        const Reduction& reduction = *decision.reduction;
        if (reduction.wide) return {};
        if (reduction.depth == 0) return {CastReason::unknown_depth, ""};
        const std::string terms = std::to_string(reduction.depth) + (reduction.assumed ? " terms assumed" : " terms");
        const double squared = options_.headroom * options_.headroom;
        const double margin = reduction.squares ? squared : reduction.bounded ? 1.0 : options_.headroom;
        if (decision.largest_product * margin > format_.largest) {
            return {CastReason::product_overflow, "up to " + number(decision.largest_product)};
        }
        if (decision.largest_sum * margin > format_.largest) {
            return {CastReason::sum_overflow, terms + ", up to " + number(decision.largest_sum)};
        }
        if (decision.error_bound > options_.error_limit) {
            return {CastReason::deep_reduction,
                    terms + ", error bound " + number(decision.error_bound) + " over " + number(options_.error_limit)};
        }
        return {};
    }

    const Graph& graph_;
    std::int64_t opset_;
    const AutocastOptions& options_;
    const HalfFormat& format_;
    std::vector<bool> excluded_;
    std::map<std::string, TensorFacts> facts_;
    std::unordered_set<std::string> masks_in_full_; ///< what nodes compute that stay FP32
};

Result<void> check(const AutocastOptions& options) {
    const auto bad = [](const std::string& what, const char* where, const char* hint) {
        return Error{ErrorCode::invalid_argument, what, where, hint};
    };
    if (!(options.headroom >= 1) || !std::isfinite(options.headroom))
        return bad("the headroom is a factor of at least 1", "--headroom", "2 counts measured values twice");
    if (!(options.error_limit > 0) || !std::isfinite(options.error_limit))
        return bad("the error limit is a positive number", "--error-limit", "0.01 is one percent");
    if (options.open_size < 1) return bad("a size is at least 1", "--open-size", "give the longest usual length");
    return {};
}

} // namespace

Result<AutocastPlan> plan_autocast(const Model& model, const RangesFile& ranges, const AutocastOptions& options) {
    LATHE_CHECK(check(options));
    for (const auto& node : model.graph.nodes) {
        if (!node->is("QuantizeLinear") && !node->is("DequantizeLinear")) continue;
        return Error{ErrorCode::invalid_argument, "the model is quantised already", node->label(),
                     "leave out --data and --ranges: what is float is then cast by what each operation does"};
    }
    LATHE_TRY(std::vector<bool> excluded, match_excluded(model.graph, options.exclude));
    return Planner(model, ranges, options, std::move(excluded)).run();
}

} // namespace lathe
