#include "passes/channel_parts.hpp"

#include <numeric>
#include <utility>

namespace lathe::passes {

bool joins_channels(const Node& node, std::size_t rank) {
    const std::int64_t axis = node.int_or("axis", 0);
    return node.is("Concat") && (axis == 1 || axis == 1 - static_cast<std::int64_t>(rank));
}

std::optional<std::vector<ChannelPart>> channel_parts(const Site& site, const std::string& value, std::size_t rank) {
    const Node* concat = site.uses.producer(value);
    std::vector<std::string> values{value};
    if (concat != nullptr && concat->is("Concat")) {
        if (site.uses.use_count(value) != 1 || !joins_channels(*concat, rank)) return std::nullopt;
        values = concat->inputs;
    }
    std::vector<ChannelPart> parts;
    std::int64_t first = 0;
    for (std::string& each : values) {
        const auto shape = site.graph.info_or_name(each).shape();
        if (!shape || shape->size() != rank || (*shape)[1] < 1) return std::nullopt;
        parts.push_back({std::move(each), first, (*shape)[1]});
        first += (*shape)[1];
    }
    return parts;
}

std::int64_t channels_of(const std::vector<ChannelPart>& parts) {
    return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                           [](std::int64_t sum, const ChannelPart& part) { return sum + part.channels; });
}

ValueInfo info_with_channels(const Graph& graph, const std::string& value, std::int64_t channels) {
    ValueInfo info = graph.info_or_name(value);
    info.opaque_type.clear();
    (*info.dims)[1] = Dimension::of(channels);
    return info;
}

std::string joined_parts(const Site& site, const std::vector<ChannelPart>& parts) {
    if (parts.size() == 1) return parts[0].value;
    Node joined = make_node("Concat", {});
    for (const ChannelPart& part : parts)
        joined.inputs.push_back(part.value);
    joined.set("axis", std::int64_t{1});
    return add_before(site, std::move(joined), info_with_channels(site.graph, parts[0].value, channels_of(parts)));
}

std::optional<Tensor> weights_of_parts(const Site& site, const std::vector<ChannelPart>& parts) {
    const Tensor& weight = *site.graph.constant(site.root.input(1));
    Shape shape = weight.shape();
    const std::int64_t results = shape[0], channels = shape[1];
    const std::int64_t taps = static_cast<std::int64_t>(weight.count()) / (results * channels);
    const std::vector<float> numbers = weight.to_floats();
    std::vector<float> left;
    for (std::int64_t k = 0; k < results; ++k) {
        for (const ChannelPart& part : parts) {
            const auto from = numbers.begin() + (k * channels + part.first) * taps;
            left.insert(left.end(), from, from + part.channels * taps);
        }
    }
    shape[1] = channels_of(parts);
    return finite_tensor(weight.type(), std::move(shape), left);
}

std::string convolved(const Site& site, const std::string& value, const Tensor& weights, const std::string& bias) {
    Node conv = site.root;
    conv.inputs = {value, add_constant(site.graph, site.root.input(1), weights)};
    if (!bias.empty()) conv.inputs.push_back(bias);
    return add_before(site, std::move(conv), info_with_channels(site.graph, value, weights.shape()[0]));
}

} // namespace lathe::passes
