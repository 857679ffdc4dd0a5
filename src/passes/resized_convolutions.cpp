#include <algorithm>
#include <functional>
#include <numeric>

#include "passes/channel_parts.hpp"
#include "passes/linear_maps.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// Of the values that a convolution reads side by side, one that may be made of fewer pixels.
struct Part : ChannelPart {
    const Node* resize = nullptr; ///< that makes it of fewer pixels, for nobody else
    std::int64_t pixels = 0;      ///< of what is resized, where it is
};

/// Product of the sizes behind batch and channels; 0 where one is unknown.
std::int64_t pixels_of(const Shape& shape) {
    if (shape.size() < 3 || std::any_of(shape.begin() + 2, shape.end(), [](std::int64_t n) { return n < 1; })) return 0;
    return std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Whether each result is a mean of what the node reads in the same sample and channel, with weights whose sum is 1.
bool is_weighted_mean(const Site& site, const Node& node, std::size_t rank) {
    const Graph& graph = site.graph;
    if (!node.is("Resize") && !node.is("Upsample")) return false;
    if (node.string_or("coordinate_transformation_mode", "") == "tf_crop_and_resize" ||
        node.string_or("keep_aspect_ratio_policy", "stretch") != "stretch")
        return false;
    const bool has_sizes = !node.input(3).empty();
    const auto axes = node.ints_or("axes", {});
    if (has_sizes) {
        if (!axes.empty() || graph.constant(node.input(3)) != nullptr) return axes.empty();
        // Batch and channels as they are, and a size that is told by the result's.
        return own_sizes(graph, site.uses, node.input(3), node.input(0)) == 2;
    }
    const bool is_attribute = node.inputs.size() < 2;
    const Tensor* scales = is_attribute ? nullptr : graph.constant(node.input(node.inputs.size() > 2 ? 2 : 1));
    if (scales == nullptr) return false;
    const auto values = scales->to_floats();
    if (axes.empty()) return values.size() == rank && values[0] == 1 && values[1] == 1;
    return std::ranges::all_of(
        axes, [&](std::int64_t axis) { return (axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis) >= 2; });
}

std::optional<std::vector<Part>> parts_of(const Site& site, const std::string& value, std::size_t rank) {
    const Graph& graph = site.graph;
    const auto joined = channel_parts(site, value, rank);
    if (!joined) return std::nullopt;
    std::vector<Part> parts;
    for (const ChannelPart& each : *joined) {
        Part part{each, nullptr, 0};
        const Node* node = site.uses.producer(part.value);
        if (node != nullptr && site.uses.use_count(part.value) == 1 && is_weighted_mean(site, *node, rank)) {
            const auto from = graph.info_or_name(node->input(0)).shape();
            if (from && from->size() == rank && (*from)[1] == part.channels && pixels_of(*from) > 0) {
                part.resize = node;
                part.pixels = pixels_of(*from);
            }
        }
        parts.push_back(std::move(part));
    }
    return parts;
}

/// Whether at most half of the products are left, and no more numbers are resized than before.
bool pays(const std::vector<Part>& parts, std::int64_t results, std::int64_t pixels) {
    double before = 0, after = 0;
    std::int64_t more = 0;
    for (const Part& part : parts) {
        const auto channels = static_cast<double>(part.channels);
        before += channels * static_cast<double>(pixels);
        after += channels * static_cast<double>(part.resize != nullptr ? part.pixels : pixels);
        if (part.resize != nullptr) more += results - part.channels;
    }
    return pixels > 0 && after * 2 <= before && more <= 0;
}

class Mover {
public:
    Mover(const Site& site, const Pointwise& conv) : site_(site), conv_(conv) {}

    bool move(const std::vector<Part>& parts) {
        std::vector<ChannelPart> kept;
        std::ranges::copy_if(parts, std::back_inserter(kept), [](const Part& part) { return part.resize == nullptr; });
        std::string bias = site_.root.input(2), sum;
        const Node conv = site_.root;
        if (!kept.empty()) {
            const std::string read = joined_parts(site_, kept);
            sum = convolved(site_, read, *weights_of_parts(site_, kept), std::exchange(bias, ""));
        }
        Node last;
        for (const Part& part : parts) {
            if (part.resize == nullptr) continue;
            if (!last.op_type.empty()) sum = put(std::move(last), result_);
            Node resize = *part.resize;
            resize.inputs[0] =
                convolved(site_, resize.input(0), *weights_of_parts(site_, {part}), std::exchange(bias, ""));
            resize.name.clear();
            if (!resize.input(3).empty()) resize.inputs[3] = with_channels(resize.input(3), resize.input(0));
            last = std::move(resize);
            if (sum.empty()) continue;
            const std::string resized = put(std::move(last), result_);
            last = make_node("Add", {sum, resized});
        }
        become(site_.root, std::move(last), conv);
        return true;
    }

private:
    std::string put(Node node, ValueInfo info) { return add_before(site_, std::move(node), std::move(info)); }
    /// The sizes of `resized`, which has other channels than what `sizes` was for.
    std::string with_channels(const std::string& sizes, const std::string& resized) {
        const auto constant = [&](const std::vector<std::int64_t>& values) {
            return add_constant(site_.graph, sizes,
                                Tensor::of_int64s("", {static_cast<std::int64_t>(values.size())}, values));
        };
        if (const Tensor* known = site_.graph.constant(sizes)) {
            auto values = known->to_int64s();
            values[1] = conv_.results;
            return constant(values);
        }
        const auto vector = [&](std::int64_t size) {
            ValueInfo info;
            info.type = DataType::int64;
            info.dims = std::vector<Dimension>{Dimension::of(size)};
            return info;
        };
        const Shape result = *result_.shape();
        const auto rank = static_cast<std::int64_t>(result.size());
        const std::string all = put(make_node("Shape", {resized}), vector(rank));
        const std::string kept = put(make_node("Slice", {all, constant({0}), constant({2})}), vector(2));
        Node joined = make_node("Concat", {kept, constant({result.begin() + 2, result.end()})});
        joined.set("axis", std::int64_t{0});
        return put(std::move(joined), vector(rank));
    }

    const Site& site_;
    const Pointwise& conv_;
    ValueInfo result_ = info_with_channels(site_.graph, site_.root.output(0), conv_.results);
};

bool convolve_first(const Site& site) {
    const Node& conv = site.root;
    const auto pointwise = pointwise_of(site.graph, conv);
    const auto result = site.graph.info_or_name(conv.output(0)).shape();
    if (!pointwise || !result || (!conv.input(2).empty() && site.graph.constant(conv.input(2)) == nullptr))
        return false;
    const std::size_t rank = pointwise->weight->shape().size();
    // Its numbers go into the weights, which a sum has not.
    const auto& readers = site.uses.consumers(conv.output(0));
    if (readers.size() == 1 && readers[0]->is("BatchNormalization")) return false;
    const auto parts = parts_of(site, conv.input(0), rank);
    if (!parts || parts->back().first + parts->back().channels != pointwise->channels ||
        !pays(*parts, pointwise->results, pixels_of(*result)) ||
        !finite_tensor(pointwise->weight->type(), pointwise->weight->shape(), pointwise->weight->to_floats()))
        return false;
    return Mover(site, *pointwise).move(*parts);
}

} // namespace

//  a   b                      a         b
//  |   |                      |         |
//  |   Resize                 |         Conv(1x1)
//  |   |              ==>     |         |
//  Concat, by channel         Conv(1x1) Resize
//  |                          |         |
//  Conv(1x1)                  +--- Add -+
//
// A resize takes weighted means of pixels, a 1x1 convolution weighted sums of channels: either may come first. Decoders
// that bring all levels of a pyramid to the largest one's size and then mix them (SegFormer, Xie et al., 2021) are left
// with a third of that layer's products.
Result<bool> convolve_before_resize(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("Conv"), convolve_first}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
