#include "quantize/noisy_layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "calibrate/quantization_error.hpp"
#include "onnx/macs.hpp"
#include "quantize/edges.hpp"
#include "quantize/last_layers.hpp"
#include "quantize/ops.hpp"
#include "quantize/scale_groups.hpp"
#include "quantize/tensor_range.hpp"

namespace lathe {
namespace {

/// A CPU core's multiply-accumulates and bytes a cycle, in round figures: 512-bit registers, VNNI against FP32. A
/// depthwise convolution has no sum over channels, which is what VNNI does, and converts as many values as it reads.
constexpr double macs_a_cycle_int8 = 64;
constexpr double macs_a_cycle_float = 16;
constexpr double depthwise_macs_a_cycle_int8 = 12;
constexpr double depthwise_macs_a_cycle_float = 8;
constexpr double bytes_a_cycle = 16;

/// Of the weight seen as rows, one an output channel.
struct RowStatistics {
    double squares = 0.0; ///< sum of squares of a row, mean over rows
    double scales = 0.0;  ///< squared scale, mean over rows
    double length = 0.0;
};

RowStatistics row_statistics(const Tensor& weight, std::optional<std::int64_t> axis, bool by_channel, double steps) {
    const Shape& shape = weight.shape();
    std::size_t inner = 1;
    const auto channel_axis = static_cast<std::size_t>(axis.value_or(0));
    for (std::size_t i = channel_axis + 1; i < shape.size(); ++i)
        inner *= static_cast<std::size_t>(shape[i]);
    const std::size_t channels = axis ? static_cast<std::size_t>(shape[channel_axis]) : 1;
    const std::span<const float> values = weight.values<float>();
    std::vector<double> largest(channels, 0.0);
    RowStatistics rows;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = std::abs(static_cast<double>(values[i]));
        double& most = largest[axis ? i / inner % channels : 0];
        most = std::max(most, value);
        rows.squares += value * value;
    }
    rows.squares /= static_cast<double>(channels);
    rows.length = static_cast<double>(values.size()) / static_cast<double>(channels);
    const double all = *std::ranges::max_element(largest);
    for (const double most : largest)
        rows.scales += std::pow((by_channel ? most : all) / steps, 2.0);
    rows.scales /= static_cast<double>(channels);
    return rows;
}

/// Cycles of a layer, by multiply-accumulates and bytes.
double cycles_of(const Graph& graph, const Node& node, bool int8) {
    const auto elements = [&](const std::string& value) {
        const auto info = graph.info(value);
        const Shape shape = info ? info->shape().value_or(Shape{}) : Shape{};
        return static_cast<double>(std::max<std::int64_t>(0, element_count(shape)));
    };
    const auto macs =
        static_cast<double>(count_macs(node, [&](const std::string& value) { return graph.info(value); }).macs);
    double bytes = elements(node.input(0)) + elements(node.output(0)) + elements(node.input(1));
    if (!int8) bytes *= 4;
    double rate = int8 ? macs_a_cycle_int8 : macs_a_cycle_float;
    if (is_depthwise(graph, node)) rate = int8 ? depthwise_macs_a_cycle_int8 : depthwise_macs_a_cycle_float;
    return macs / rate + bytes / bytes_a_cycle;
}

/// The heavy layers that the plan decides on: calls `each` with the node's position and whether it is int8.
template <class Each>
void for_each_layer(const Graph& graph, const QuantizationPlan& plan, const Each& each) {
    for (const EdgeDecision& decision : plan.decisions) {
        if (decision.edge.input != 0 || decision.reason == Reason::inside_subgraph ||
            !is_heavy(*graph.nodes[decision.edge.node]))
            continue;
        each(decision.edge.node, decision.reason == Reason::heavy_input);
    }
}

class Estimate {
public:
    Estimate(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
             const std::map<std::string, Range>& values)
        : graph_(graph), plan_(plan), ranges_(ranges), values_(values), index_(graph), group_of_(index_, plan) {}

    std::vector<LayerNoise> run() {
        std::vector<LayerNoise> layers;
        double cycles = 0.0;
        for_each_layer(graph_, plan_, [&](std::size_t at, bool int8) {
            const Node& node = index_.node(at);
            cycles += cycles_of(graph_, node, int8);
            if (!int8) return;
            if (const auto noise = noise_of(at))
                layers.push_back(
                    {at, node.label(), *noise, 0.0, cycles_of(graph_, node, false) - cycles_of(graph_, node, true)});
        });
        double sum = 0.0;
        for (const LayerNoise& layer : layers)
            sum += layer.noise;
        for (LayerNoise& layer : layers) {
            if (sum > 0.0) layer.share = layer.noise / sum;
            if (cycles > 0.0) layer.cost = std::max(0.0, layer.cost) / cycles;
        }
        return layers;
    }

private:
    /// Where it is not kept itself, what is fused behind it tells.
    std::optional<double> variance_of(const std::string& value) const {
        const TensorRange* tensor = ranges_.find(value);
        if (tensor == nullptr) {
            const auto only = index_.only_reader(value);
            if (!only || !is_fused_activation(index_.node(only->node))) return std::nullopt;
            tensor = ranges_.find(index_.node(only->node).output(0));
        }
        if (tensor == nullptr || tensor->histogram.finite_count() == 0) return std::nullopt;
        const double deviation = tensor->histogram.standard_deviation();
        return deviation > 0.0 ? std::optional(deviation * deviation) : std::nullopt;
    }

    std::optional<double> noise_of(std::size_t position) const {
        const Node& node = index_.node(position);
        const auto weight = std::ranges::find_if(plan_.weights, [&](const QuantizedWeight& each) {
            return std::ranges::find(each.readers, Edge{position, 1}) != each.readers.end();
        });
        if (weight == plan_.weights.end()) return std::nullopt;
        const Constant constant = resolve_constant(graph_, weight->value);
        const auto* tensor = std::get_if<Tensor>(&constant);
        const auto group = group_of_(node.input(0));
        const TensorRange* input = range_behind(graph_, ranges_, node.input(0));
        const auto variance = variance_of(node.output(0));
        if (tensor == nullptr || tensor->count() == 0 || !group || input == nullptr || !variance) return std::nullopt;
        const std::uint64_t count = input->histogram.finite_count();
        if (count == 0) return std::nullopt;
        const auto range = range_of(plan_.groups[*group], values_);
        if (!range) return std::nullopt;
        const QuantizationError error(input->histogram);
        const NumberFormat format = format_of(plan_.groups[*group], plan_);
        const double of_input = error(grid_of(*range, format)) / static_cast<double>(count);
        const double power = error.power() / static_cast<double>(count);
        constexpr double steps = 127;
        RowStatistics rows =
            row_statistics(*tensor, weight->axis, plan_.granularity == WeightGranularity::per_channel, steps);
        if (node.is("ConvTranspose")) {
            // An output reads the weights that the strides leave it.
            for (const std::int64_t stride : node.ints_or("strides", {})) {
                rows.squares /= static_cast<double>(std::max<std::int64_t>(1, stride));
                rows.length /= static_cast<double>(std::max<std::int64_t>(1, stride));
            }
        }
        return (of_input * rows.squares + power * rows.length * rows.scales / 12.0) / *variance;
    }

    const Graph& graph_;
    const QuantizationPlan& plan_;
    const RangesFile& ranges_;
    const std::map<std::string, Range>& values_;
    EdgeIndex index_;
    GroupOf group_of_;
};

} // namespace

std::vector<LayerNoise> estimate_layer_noise(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
                                             const std::map<std::string, Range>& values) {
    return Estimate(graph, plan, ranges, values).run();
}

namespace {

/// Time that decoding may take in float: next to nothing.
constexpr double decoding_cost = 0.002;

/// A convolution with constant weights and more than one result a channel.
bool answers_for_places(const Graph& graph, const Node& node) {
    const auto info = graph.info(node.output(0));
    const std::size_t rank = info && info->dims ? info->dims->size() : 0;
    if (!node.is("Conv") || rank < 3) return false;
    bool places = false; // an open size is more than one
    for (std::size_t axis = 2; axis < rank; ++axis)
        places = places || (*info->dims)[axis].size.value_or(2) > 1;
    return places && std::holds_alternative<Tensor>(resolve_constant(graph, node.input(1)));
}

} // namespace

std::vector<LayerNoise> head_layers(const Graph& graph, const QuantizationPlan& plan, double most_cost) {
    std::unordered_set<std::string> int8;
    std::map<std::string, int> named;
    double cycles = 0.0;
    for_each_layer(graph, plan, [&](std::size_t at, bool is_int8) {
        const Node& node = *graph.nodes[at];
        cycles += cycles_of(graph, node, is_int8);
        if (is_int8) int8.insert(node.label());
    });
    for (const auto& node : graph.nodes)
        ++named[node->label()];
    std::vector<LayerNoise> found;
    if (cycles <= 0.0) return found;
    double cost = 0.0;
    // A second time behind what only decodes, as YOLOv8's sum over the bins of a box's sides does.
    for (int round = 0; round < 2 && cost <= decoding_cost; ++round) {
        std::vector<LayerNoise> now;
        for (const std::size_t at : last_layers(graph, int8)) {
            const Node& node = *graph.nodes[at];
            if (!answers_for_places(graph, node) || named[node.label()] != 1) continue;
            const double more = cycles_of(graph, node, false) - cycles_of(graph, node, true);
            now.push_back({at, node.label(), 0.0, 0.0, std::max(0.0, more) / cycles, true});
        }
        std::ranges::stable_sort(now, {}, &LayerNoise::cost);
        for (LayerNoise& layer : now) {
            if (cost + layer.cost > most_cost) break;
            cost += layer.cost;
            int8.erase(layer.label);
            found.push_back(std::move(layer));
        }
    }
    // A network of nothing but its last layers is left as it is asked for.
    return int8.empty() ? std::vector<LayerNoise>{} : found;
}

std::string describe(const LayerNoise& layer) {
    char text[160];
    if (layer.last) {
        std::snprintf(text, sizeof(text),
                      "a last layer, whose errors are the answer's; float adds about %.1f %% of time",
                      100 * layer.cost);
        return text;
    }
    std::snprintf(text, sizeof(text),
                  "noise of %.1f %% of its output's variance, %.0f %% of all layers'; float adds about %.1f %% of time",
                  100 * layer.noise, 100 * layer.share, 100 * layer.cost);
    return text;
}

std::vector<std::string> in_words(const std::vector<LayerNoise>& in_float) {
    std::vector<std::string> lines;
    std::size_t last = 0;
    double cost = 0.0;
    std::string first;
    for (const LayerNoise& layer : in_float) {
        if (!layer.last) {
            lines.push_back(layer.label + ": " + describe(layer));
            continue;
        }
        if (last++ == 0) first = layer.label;
        cost += layer.cost;
    }
    if (last == 1) {
        lines.push_back(first + ": " + describe({0, first, 0.0, 0.0, cost, true}));
    } else if (last > 1) {
        char text[96];
        std::snprintf(text, sizeof(text), ", ...), whose errors are the answer's; float adds about %.1f %% of time",
                      100 * cost);
        lines.push_back(std::to_string(last) + " last layers (" + first + text);
    }
    return lines;
}

std::vector<LayerNoise> noisy_layers(std::vector<LayerNoise> layers, const NoisyLayerLimits& limits) {
    if (layers.size() < 2) return {};
    std::vector<double> noise;
    for (const LayerNoise& layer : layers)
        noise.push_back(layer.noise);
    const auto middle = noise.begin() + static_cast<std::ptrdiff_t>(noise.size() / 2);
    std::ranges::nth_element(noise, middle);
    const double outstanding = limits.over_median * *middle, least = std::max(limits.noise, outstanding);
    std::erase_if(layers, [&](const LayerNoise& layer) {
        const bool free = layer.share >= limits.great_share && layer.cost <= limits.nearly_free;
        return layer.noise < (free ? outstanding : least);
    });
    // Of equal gain for the cost the first in the graph.
    std::ranges::stable_sort(
        layers, [](const LayerNoise& a, const LayerNoise& b) { return a.noise * b.cost > b.noise * a.cost; });
    std::vector<LayerNoise> chosen;
    double cost = 0.0;
    for (const LayerNoise& layer : layers) {
        if (cost + layer.cost > (layer.noise >= limits.ruinous_noise ? limits.ruinous_cost : limits.cost)) continue;
        cost += layer.cost;
        chosen.push_back(layer);
    }
    return chosen;
}

} // namespace lathe
