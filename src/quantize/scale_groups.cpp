#include "quantize/scale_groups.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "calibrate/quantization_error.hpp"
#include "quantize/ops.hpp"
#include "quantize/tensor_range.hpp"

namespace lathe {
namespace {

/// A shared scale is wrong for a tensor where rounding to it loses more than this share of the tensor's power ...
constexpr double much_noise = 0.004; // 24 dB
/// ... and so many times what its own scale would lose.
constexpr double over_own = 4;

float magnitude(const Range& range) { return std::max(-range.low, range.high); }

/// Whether the tensor's values suit a scale of the range.
bool suits(const TensorRange& tensor, const Range& shared, const Range& own, const NumberFormat& format) {
    if (magnitude(shared) <= magnitude(own)) return true;
    const QuantizationError error(tensor.histogram);
    const double lost = error(grid_of(shared, format));
    return lost <= much_noise * error.power() || lost <= over_own * error(grid_of(own, format));
}

} // namespace

GroupOf::GroupOf(const EdgeIndex& index, const QuantizationPlan& plan) : index_(index) {
    for (const QuantizedTensor& tensor : plan.tensors)
        groups_[tensor.name] = tensor.group;
}

std::optional<std::size_t> GroupOf::operator()(std::string value) const {
    for (std::size_t steps = 0; steps <= index_.graph().nodes.size(); ++steps) {
        if (const auto found = groups_.find(value); found != groups_.end()) return found->second;
        const auto producer = index_.producer(value);
        if (!producer) return std::nullopt;
        const Node& node = index_.node(*producer);
        if (!node.is("Concat") && !is_pass_through(index_.graph(), node)) return std::nullopt;
        value = node.input(0);
    }
    return std::nullopt;
}

std::optional<Range> range_of(const ScaleGroup& group, const std::map<std::string, Range>& values) {
    Range range;
    for (const std::string& name : group.ranges) {
        const auto found = values.find(name);
        if (found == values.end()) return std::nullopt;
        range.low = std::min(range.low, found->second.low);
        range.high = std::max(range.high, found->second.high);
    }
    return range;
}

std::optional<std::size_t> unlike_concat(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
                                         const std::map<std::string, Range>& values) {
    const EdgeIndex index(graph);
    const GroupOf group_of(index, plan);
    std::vector<std::set<std::size_t>> concats(plan.groups.size());
    for (const EdgeDecision& decision : plan.decisions) {
        if (decision.reason != Reason::concat_shared) continue;
        if (const auto group = group_of(decision.tensor)) concats[*group].insert(decision.edge.node);
    }
    for (const EdgeDecision& decision : plan.decisions) {
        if (decision.reason != Reason::heavy_input && decision.reason != Reason::residual_input) continue;
        const auto group = group_of(decision.tensor);
        if (!group || concats[*group].empty()) continue;
        const TensorRange* tensor = range_behind(graph, ranges, decision.tensor);
        const auto shared = range_of(plan.groups[*group], values);
        if (tensor == nullptr || !shared || tensor->histogram.finite_count() == 0) continue;
        const NumberFormat format = format_of(plan.groups[*group], plan);
        if (suits(*tensor, *shared, ranges.range(*tensor, format), format)) continue;
        // By what comes out of each.
        const auto size = [&](std::size_t concat) {
            const auto found = values.find(index.node(concat).output(0));
            return found == values.end() ? 0.0F : magnitude(found->second);
        };
        return *std::ranges::max_element(concats[*group], {}, size);
    }
    return std::nullopt;
}

} // namespace lathe
