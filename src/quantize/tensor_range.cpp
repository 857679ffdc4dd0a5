#include "quantize/tensor_range.hpp"

#include <algorithm>

#include "quantize/ops.hpp"

namespace lathe {

namespace {

/// Of what a node that only moves elements makes of the value: converting to another opset puts such nodes behind
/// values that it names anew.
const TensorRange* range_of_moved(const Graph& graph, const RangesFile& ranges, const std::string& name) {
    for (const auto& node : graph.nodes) {
        const bool keeps_all = node->is("Reshape") || node->is("Transpose") || node->is("Flatten") ||
                               node->is("Squeeze") || node->is("Unsqueeze") || node->is("Identity");
        if (!keeps_all || node->input(0) != name) continue;
        if (const TensorRange* tensor = ranges.find(node->output(0))) return tensor;
    }
    return nullptr;
}

} // namespace

const TensorRange* range_behind(const Graph& graph, const RangesFile& ranges, std::string name) {
    const std::string own = name;
    for (std::size_t steps = 0; steps <= graph.nodes.size(); ++steps) {
        if (const TensorRange* tensor = ranges.find(name)) return tensor;
        const auto producer = std::ranges::find_if(graph.nodes, [&](const auto& node) {
            return std::ranges::find(node->outputs, name) != node->outputs.end();
        });
        if (producer == graph.nodes.end() || !is_pass_through(graph, **producer)) break;
        name = (*producer)->input(0);
    }
    return range_of_moved(graph, ranges, own);
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
