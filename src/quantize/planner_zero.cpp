#include <algorithm>

#include "quantize/ops.hpp"
#include "quantize/planner.hpp"

namespace lathe {
namespace {

/// What an int8 kernel of the CUDA engine computes with constant weights.
bool multiplies(const Node& node) { return node.is("Conv") || node.is("Gemm") || node.is("MatMul"); }

} // namespace

// Conv -> (+ skip) -> Relu -> [Q DQ] -> 1x1 Conv, Add: one kernel writes the int8 values, with the zero point in its
// bias, and those that read them take what it adds out of theirs; depthwise ones pad with it. That is so only if no
// other kernel ever sees them.
void Planner::choose_zero_points(QuantizationPlan& plan) const {
    std::vector<std::size_t> members(plan.groups.size(), 0);
    for (const QuantizedTensor& tensor : plan.tensors)
        ++members[tensor.group];
    for (const QuantizedTensor& tensor : plan.tensors) {
        ScaleGroup& group = plan.groups[tensor.group];
        const bool alone = members[tensor.group] == 1 && group.ranges == std::vector{tensor.name};
        group.from_zero = alone && wanted_by_all(tensor.name) && one_kernel_gives(tensor.name) &&
                          std::ranges::all_of(tensor.readers, [&](const Edge& edge) { return takes_zero_point(edge); });
    }
}

/// The value is the Relu (or Clip) of an int8 convolution or matrix product, a residual or a bias between or not.
bool Planner::one_kernel_gives(const std::string& value) const {
    const auto activation = index_.producer(value);
    if (!activation || !starts_at_zero(graph_, index_.node(*activation))) return false;
    const std::string& sum = index_.node(*activation).input(0);
    const auto before = index_.producer(sum);
    if (!before || !index_.only_reader(sum)) return false;
    const Node& node = index_.node(*before);
    if (multiplies(node)) return int8_node_[*before];
    if (!node.is("Add") || node.inputs.size() != 2) return false;
    if (index_.is_constant(node.input(0)) || index_.is_constant(node.input(1))) {
        // MatMul and its bias.
        const std::size_t kept = index_.is_constant(node.input(0)) ? 1 : 0;
        const Constant bias = resolve_constant(graph_, node.input(1 - kept));
        const auto* tensor = std::get_if<Tensor>(&bias);
        return straight_from_heavy(node.input(kept)) && index_.node(*index_.producer(node.input(kept))).is("MatMul") &&
               tensor != nullptr && tensor->shape().size() == 1;
    }
    return adds_behind(*before, 0) || adds_behind(*before, 1);
}

/// The Add is done by the kernel that computes its input `kept`; the other is a skip in int8 of the same sizes that is
/// computed by then.
bool Planner::adds_behind(std::size_t add, std::size_t kept) const {
    const std::string& own = index_.node(add).input(kept);
    const std::string& skip = index_.node(add).input(1 - kept);
    if (!int8_node_[add] || wanted_.contains({add, kept}) || !wanted_.contains({add, 1 - kept})) return false;
    if (!straight_from_heavy(own)) return false;
    const std::size_t kernel = *index_.producer(own);
    if (!multiplies(index_.node(kernel))) return false;
    const auto maker = index_.producer(skip);
    if (maker && *maker > kernel) return false;
    const auto left = graph_.info(own);
    const auto right = graph_.info(skip);
    return left && right && left->dims && left->dims == right->dims;
}

bool Planner::takes_zero_point(const Edge& edge) const {
    const Node& node = index_.node(edge.node);
    if (!int8_node_[edge.node]) return false;
    if (node.is("Add")) return node.inputs.size() == 2 && adds_behind(edge.node, 1 - edge.input);
    if (edge.input != 0 || !multiplies(node)) return false;
    if (node.is("Conv")) return is_unpadded(graph_, node) || is_depthwise(graph_, node);
    if (node.is("Gemm")) return node.int_or("transA", 0) == 0;
    const Constant weight = resolve_constant(graph_, node.input(1));
    const auto* tensor = std::get_if<Tensor>(&weight);
    return tensor != nullptr && tensor->shape().size() == 2;
}

} // namespace lathe
