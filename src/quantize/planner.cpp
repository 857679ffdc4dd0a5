#include "quantize/planner.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "graph/subgraphs.hpp"
#include "quantize/ops.hpp"
#include "quantize/pairs.hpp"

namespace lathe {
namespace {

/// Axis of the output channels; nothing where no one axis is theirs.
std::optional<std::int64_t> channel_axis(const Node& node, const Shape& weight) {
    if (node.is("Conv")) return 0;
    if (node.is("MatMul")) return static_cast<std::int64_t>(weight.size()) - 1;
    if (node.is("Gemm")) return node.int_or("transB", 0) != 0 ? 0 : 1;
    // ConvTranspose's weight is [C, M/group, ...]: with groups, one index of axis 1 belongs to several output channels,
    // and runtimes disagree on what a scale a channel then means.
    if (node.int_or("group", 1) == 1) return 1;
    return std::nullopt;
}

} // namespace

Planner::Planner(const Graph& graph, const TargetProfile& profile, std::vector<bool> excluded,
                 std::set<std::size_t> unlike)
    : graph_(graph), profile_(profile), excluded_(std::move(excluded)), unlike_(std::move(unlike)), index_(graph),
      int8_node_(graph.nodes.size(), false) {}

QuantizationPlan Planner::plan() {
    QuantizationPlan plan;
    plan.target = profile_.target;
    plan.activations = profile_.activations;
    plan.granularity = profile_.granularity;
    const std::size_t count = graph_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (!is_heavy(index_.node(i))) continue;
        judge_heavy(i);
        ++plan.heavy_nodes;
        if (int8_node_[i]) ++plan.quantized_nodes;
    }
    for (std::size_t i = count; i-- > 0;)
        walk_back(i);
    if (profile_.quantize_outputs) {
        for (std::size_t i = 0; i < count; ++i) {
            if (int8_node_[i]) want_output(i);
        }
    }
    build_tensors(plan);
    if (profile_.zero_point_from_zero) choose_zero_points(plan);
    build_decisions(plan);
    add_remarks(plan);
    return plan;
}

void Planner::want(const Edge& edge, Reason reason, std::string detail) {
    wanted_.insert(edge);
    verdicts_[edge] = {reason, std::move(detail)};
}

void Planner::refuse(const Edge& edge, Reason reason, std::string detail) {
    if (!wanted_.contains(edge)) verdicts_[edge] = {reason, std::move(detail)};
}

void Planner::refuse_all(std::size_t index, Reason reason, const std::string& detail) {
    for (std::size_t i = 0; i < index_.node(index).inputs.size(); ++i)
        refuse({index, i}, reason, detail);
}

void Planner::judge_heavy(std::size_t index) {
    const Node& node = index_.node(index);
    if (const auto verdict = why_float(index)) {
        refuse_all(index, verdict->reason, verdict->detail);
        return;
    }
    int8_node_[index] = true;
    want({index, 0}, Reason::heavy_input);
    const Edge second{index, 1};
    if (!index_.is_constant(node.input(1))) {
        want(second, Reason::heavy_input);
    } else {
        const Constant constant = resolve_constant(graph_, node.input(1));
        const Shape& shape = std::get<Tensor>(constant).shape();
        const auto axis = channel_axis(node, shape);
        const auto [weight, added] = weights_.try_emplace({node.input(1), axis});
        if (added) weight->second = {node.input(1), axis, {}, input_axis(node, shape, profile_)};
        weight->second.readers.push_back(second);
        const bool by_channel = axis && profile_.granularity == WeightGranularity::per_channel;
        verdicts_[second] = {Reason::heavy_weight, by_channel
                                                       ? "a scale for each channel of axis " + std::to_string(*axis)
                                                       : "one scale for all"};
    }
    if (const auto bias = bias_input(node); bias && !node.input(*bias).empty()) {
        refuse({index, *bias}, Reason::bias_stays_float);
    }
}

std::optional<Planner::Verdict> Planner::why_float(std::size_t index) {
    const Node& node = index_.node(index);
    if (excluded_[index]) return Verdict{Reason::excluded_by_user, ""};
    if (node.inputs.size() < 2) return Verdict{Reason::op_stays_float, "too few inputs"};
    if (!index_.is_float32(node.input(0)) || !index_.is_float32(node.input(1))) {
        return Verdict{Reason::not_float32, ""};
    }
    if (index_.is_constant(node.input(0))) return Verdict{Reason::weight_on_left, ""};
    if (!index_.is_constant(node.input(1))) {
        if (!node.is("MatMul")) return Verdict{Reason::weight_not_constant, ""};
        if (!profile_.quantize_activation_matmul) return Verdict{Reason::activation_matmul, ""};
        if (!index_.is_float32(node.input(0), true) || !index_.is_float32(node.input(1), true)) {
            return Verdict{Reason::not_float32, "types not known: run lathe simplify first"};
        }
        return std::nullopt;
    }
    const Constant constant = resolve_constant(graph_, node.input(1));
    if (const auto* reason = std::get_if<Reason>(&constant)) return Verdict{*reason, node.input(1)};
    const Tensor& weight = std::get<Tensor>(constant);
    if (weight.type() != DataType::float32) return Verdict{Reason::not_float32, to_string(weight.type())};
    if (!profile_.quantize_gates && is_gate(index)) return Verdict{Reason::too_small_matmul, "a gate's, of one pixel"};
    return why_float_by_size(node, weight.shape());
}

//  image -> average [N, C, 1, 1] -> Conv -> Relu -> Conv -> Sigmoid -> Mul(image, .)
bool Planner::is_gate(std::size_t index) const {
    const auto pixels = [&](const std::string& value) -> std::optional<std::int64_t> {
        const auto info = graph_.info(value);
        const auto shape = info ? info->shape() : std::nullopt;
        if (!shape || shape->size() != 4 || (*shape)[2] < 1 || (*shape)[3] < 1) return std::nullopt;
        return (*shape)[2] * (*shape)[3];
    };
    const Node& node = index_.node(index);
    if (!node.is("Conv") || pixels(node.input(0)) != 1 || pixels(node.output(0)) != 1) return false;
    constexpr std::size_t most = 16; // nodes of a gate
    std::vector<std::string> values{node.output(0)};
    for (std::size_t i = 0; i < values.size() && i < most; ++i) {
        for (const Edge& reader : index_.readers(values[i])) {
            const Node& next = index_.node(reader.node);
            const auto size = pixels(next.output(0));
            if (next.is("Mul") && size && *size > 1) return true;
            if (size == 1 && std::ranges::find(values, next.output(0)) == values.end())
                values.push_back(next.output(0));
        }
    }
    return false;
}

std::optional<Planner::Verdict> Planner::why_float_by_size(const Node& node, const Shape& weight) const {
    if (node.is("Conv") || node.is("ConvTranspose")) {
        if (weight.size() < 3) return Verdict{Reason::op_stays_float, "weight " + to_string(weight)};
        const std::int64_t group = node.int_or("group", 1);
        const bool transposed = node.is("ConvTranspose");
        const std::int64_t out = transposed ? weight[1] * group : weight[0];
        const std::int64_t in = transposed ? weight[0] : weight[1] * group;
        // The image's convolution has 1 to 4 channels by nature.
        const bool stem = !transposed && group == 1 && in <= 4;
        const bool few = out < profile_.minimum_channels || (in < profile_.minimum_channels && !stem);
        if (few || (stem && !profile_.quantize_stem && in < profile_.minimum_channels)) {
            return Verdict{Reason::too_few_channels, std::to_string(in) + " in, " + std::to_string(out) + " out"};
        }
        return std::nullopt;
    }
    if (weight.size() < 2) return Verdict{Reason::single_row_or_column, "weight " + to_string(weight)};
    const std::int64_t least = std::min(weight[weight.size() - 1], weight[weight.size() - 2]);
    if (least < 2) return Verdict{Reason::single_row_or_column, "weight " + to_string(weight)};
    if (least < profile_.minimum_matmul_size) {
        return Verdict{Reason::too_small_matmul, "weight " + to_string(weight)};
    }
    return std::nullopt;
}

bool Planner::wanted(const std::string& value) const {
    const auto& readers = index_.readers(value);
    if (std::ranges::any_of(readers, [&](const Edge& edge) { return wanted_.contains(edge); })) return true;
    const auto only = index_.only_reader(value);
    return only && is_fused_activation(index_.node(only->node)) && only->input == 0 &&
           wanted(index_.node(only->node).output(0));
}

bool Planner::wanted_by_all(const std::string& value) const {
    if (index_.read_outside(value)) return false;
    const auto& readers = index_.readers(value);
    return std::ranges::all_of(readers, [&](const Edge& edge) { return wanted_.contains(edge); });
}

bool Planner::can_be_int8(const std::string& value) {
    // Producers come first, so a walk in graph order would do; this one is depth-first with an explicit stack, since
    // chains may be as long as the graph.
    std::vector<std::string> stack{value};
    while (!stack.empty()) {
        const std::string current = stack.back();
        if (can_be_int8_.contains(current)) {
            stack.pop_back();
            continue;
        }
        const auto producer = index_.producer(current);
        if (!producer || excluded_[*producer]) {
            can_be_int8_[current] = false;
            continue;
        }
        const Node& node = index_.node(*producer);
        if (is_heavy(node)) {
            can_be_int8_[current] = int8_node_[*producer];
            continue;
        }
        const auto gated = gated_in_kernel(current);
        const bool follows = gated || is_fused_activation(node) || is_average_pool(node) || node.is("Add") ||
                             node.is("Concat") || is_pass_through(graph_, node);
        if (!follows) {
            can_be_int8_[current] = false;
            continue;
        }
        const std::size_t data_inputs = node.is("Add") || node.is("Concat") ? node.inputs.size() : 1;
        const std::span<const std::string> data =
            gated ? std::span(&*gated, 1) : std::span(node.inputs).first(std::min(data_inputs, node.inputs.size()));
        bool any = false;
        bool ready = true;
        for (const std::string& input : data) {
            const auto known = can_be_int8_.find(input);
            if (known == can_be_int8_.end()) {
                stack.push_back(input);
                ready = false;
            } else {
                any = any || known->second;
            }
        }
        if (ready) can_be_int8_[current] = any;
    }
    return can_be_int8_.at(value);
}

std::optional<std::string> Planner::gated_in_kernel(const std::string& value) const {
    if (!profile_.gates_and_adds_behind) return std::nullopt;
    return index_.gated_by_itself(value);
}

bool Planner::straight_from_heavy(const std::string& value) const {
    const auto producer = index_.producer(value);
    return producer && is_heavy(index_.node(*producer)) && int8_node_[*producer] && index_.only_reader(value);
}

bool Planner::added_in_kernel(const std::string& value) const {
    if (straight_from_heavy(value)) return true;
    if (!profile_.gates_and_adds_behind || !index_.only_reader(value)) return false;
    const auto conv_gives = [&](const std::string& result) {
        const auto producer = index_.producer(result);
        return producer && index_.node(*producer).is("Conv") && int8_node_[*producer];
    };
    if (const auto gated = index_.gated_by_itself(value)) return conv_gives(*gated);
    const auto activation = index_.producer(value);
    if (!activation || !is_fused_activation(index_.node(*activation))) return false;
    const std::string& result = index_.node(*activation).input(0);
    return index_.only_reader(result) && conv_gives(result);
}

void Planner::walk_back(std::size_t index) {
    const Node& node = index_.node(index);
    if (is_heavy(node) || node.inputs.empty()) return;
    if (excluded_[index]) {
        refuse_all(index, Reason::excluded_by_user);
        return;
    }
    if (node.is("Concat")) {
        walk_concat(index);
    } else if (node.is("Add") && node.inputs.size() == 2) {
        walk_add(index);
    } else if (is_average_pool(node)) {
        walk_pool(index);
    } else if (is_pass_through(graph_, node)) {
        walk_pass_through(index);
    }
}

// X -> MaxPool -> [Q DQ] -> Conv      becomes      X -> [Q DQ] -> MaxPool -> Conv
// The pool then runs on int8, and what computes X writes int8. Only if all readers of the pool want int8: a reader in
// float would otherwise lose accuracy for nothing.
void Planner::walk_pass_through(std::size_t index) {
    const Node& node = index_.node(index);
    bool any = false;
    bool all = true;
    for (const std::string& output : node.outputs) {
        if (output.empty()) continue;
        any = any || wanted(output);
        all = all && wanted_by_all(output) && index_.is_float32(output);
    }
    const bool moves = any && all && !index_.is_constant(node.input(0)) && index_.is_float32(node.input(0));
    if (!moves) {
        refuse({index, 0}, any ? Reason::reads_original : Reason::output_stays_float);
        return;
    }
    want({index, 0}, Reason::moved_before);
    for (const std::string& output : node.outputs) {
        if (output.empty()) continue;
        share_scale(node.input(0), output);
        range_from_others_.insert(output);
        if (!profile_.pair_after_pass_through) moved_.insert(output);
    }
}

// A, B -> Concat -> [Q DQ] -> Conv      becomes      A -> [Q DQ], B -> [Q DQ] of the same scale -> Concat -> Conv
// The range of the Concat's output is that of all inputs together.
void Planner::walk_concat(std::size_t index) {
    const Node& node = index_.node(index);
    const std::string& output = node.output(0);
    if (!wanted_by_all(output) || !wanted(output)) {
        refuse_all(index, wanted(output) ? Reason::reads_original : Reason::output_stays_float);
        return;
    }
    bool useful = false;
    for (const std::string& input : node.inputs) {
        if (index_.is_constant(input) || !index_.is_float32(input)) return;
        useful = can_be_int8(input) || useful;
    }
    if (!useful) {
        refuse_all(index, Reason::producer_stays_float);
        return;
    }
    if (unlike_.contains(index)) {
        refuse_all(index, Reason::unlike_parts);
        return;
    }
    int8_node_[index] = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        want({index, i}, Reason::concat_shared, output);
        share_scale(node.inputs[i], output);
        range_from_others_.insert(node.inputs[i]);
    }
    range_of_concat_.insert(output);
    if (!profile_.pair_after_pass_through) moved_.insert(output);
}

void Planner::walk_pool(std::size_t index) {
    const Node& node = index_.node(index);
    const Edge edge{index, 0};
    if (!profile_.quantize_average_pool || !index_.is_float32(node.input(0))) {
        refuse(edge, Reason::op_stays_float);
    } else if (!wanted(node.output(0))) {
        refuse(edge, Reason::output_stays_float);
    } else if (!can_be_int8(node.input(0))) {
        refuse(edge, Reason::producer_stays_float);
    } else {
        int8_node_[index] = true;
        want(edge, Reason::pool_input);
    }
}

// Conv -> Add(Conv's, skip) -> Relu -> [Q DQ]: with the skip in int8 the convolution adds it, applies the Relu and
// writes int8, all in one kernel.
void Planner::walk_add(std::size_t index) {
    const Node& node = index_.node(index);
    const std::string& left = node.inputs[0];
    const std::string& right = node.inputs[1];
    if (index_.is_constant(left) || index_.is_constant(right)) {
        const std::size_t activation = index_.is_constant(left) ? 1 : 0;
        const bool fused = straight_from_heavy(node.inputs[activation]);
        refuse({index, activation}, fused ? Reason::fused_output : Reason::op_stays_float);
        return;
    }
    if (left.empty() || right.empty() || !index_.is_float32(left) || !index_.is_float32(right)) {
        refuse_all(index, Reason::not_float32);
        return;
    }
    if (!wanted(node.output(0))) {
        refuse_all(index, Reason::output_stays_float);
        return;
    }
    const bool straight_left = added_in_kernel(left);
    const bool straight_right = added_in_kernel(right);
    if (profile_.residual == ResidualRule::skip_input && (straight_left || straight_right)) {
        // Both straight (a downsampling block): the later one adds, since the other is computed by then.
        const bool left_adds =
            straight_left && (!straight_right || index_.producer(left).value() > index_.producer(right).value());
        int8_node_[index] = true;
        want({index, left_adds ? std::size_t{1} : 0}, Reason::residual_input);
        if (straight_left && straight_right) residual_terms_.insert(left_adds ? right : left);
        refuse({index, left_adds ? std::size_t{0} : 1}, Reason::fused_output);
        return;
    }
    const bool left_int8 = can_be_int8(left);
    const bool right_int8 = can_be_int8(right);
    if (!left_int8 || !right_int8) {
        refuse_all(index, Reason::producer_stays_float, left_int8 ? right : left);
        return;
    }
    int8_node_[index] = true;
    want({index, 0}, Reason::residual_input);
    want({index, 1}, Reason::residual_input);
    if (straight_left) residual_terms_.insert(left);
    if (straight_right) residual_terms_.insert(right);
}

// For runtimes whose int8 kernels need their output quantised and read only so: all readers of the output, or of the
// Relu or Clip that is folded into the quantisation, take the pair.
void Planner::want_output(std::size_t index) {
    const Node& node = index_.node(index);
    std::string value = node.output(0);
    if (const auto only = index_.only_reader(value);
        only && only->input == 0 && is_clipping(index_.node(only->node)) && !excluded_[only->node]) {
        refuse(*only, Reason::fused_output);
        value = index_.node(only->node).output(0);
    }
    const auto& readers = index_.readers(value);
    const bool some = std::ranges::any_of(readers, [&](const Edge& edge) { return wanted_.contains(edge); });
    // Gemm and MatMul have kernels with int8 inputs and a float output: better for logits.
    if ((node.is("Gemm") || node.is("MatMul")) && !some) return;
    for (const Edge& edge : readers) {
        if (!wanted_.contains(edge)) want(edge, Reason::output_for_fusion);
    }
}

void Planner::share_scale(const std::string& a, const std::string& b) {
    const std::string left = scale_leader(a);
    const std::string right = scale_leader(b);
    if (left != right) shared_[right] = left;
}

std::string Planner::scale_leader(const std::string& value) {
    std::string leader = value;
    for (auto next = shared_.find(leader); next != shared_.end(); next = shared_.find(leader))
        leader = next->second;
    if (leader != value) shared_[value] = leader; // shorten the next walk
    return leader;
}

} // namespace lathe
