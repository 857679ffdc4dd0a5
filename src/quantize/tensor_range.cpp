#include "quantize/tensor_range.hpp"

#include <algorithm>

#include "quantize/ops.hpp"

namespace lathe {

const TensorRange* range_behind(const Graph& graph, const RangesFile& ranges, std::string name) {
    for (std::size_t steps = 0; steps <= graph.nodes.size(); ++steps) {
        if (const TensorRange* tensor = ranges.find(name)) return tensor;
        const auto producer = std::ranges::find_if(graph.nodes, [&](const auto& node) {
            return std::ranges::find(node->outputs, name) != node->outputs.end();
        });
        if (producer == graph.nodes.end() || !is_pass_through(graph, **producer)) return nullptr;
        name = (*producer)->input(0);
    }
    return nullptr;
}

NumberFormat format_of(const ScaleGroup& group, const QuantizationPlan& plan) {
    return group.from_zero ? NumberFormat::uint8() : plan.activations;
}

Range range_in_group(const TensorRange& tensor, const ScaleGroup& group, const RangesFile& ranges,
                     const QuantizationPlan& plan) {
    const NumberFormat format = format_of(group, plan);
    // Ranges that another tool wrote have no histograms.
    const bool measured = ranges.source.empty();
    return group.whole_range && measured ? estimate(tensor.histogram, Method::minmax, format)
                                         : ranges.range(tensor, format);
}

} // namespace lathe
