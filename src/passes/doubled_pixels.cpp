#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "passes/channel_parts.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// Channels from which on products, and not the passes beside them, are what such a convolution costs. GPUs store those
/// of a pixel in multiples of 8, so that phases lie side by side without a copy.
constexpr std::int64_t least_channels = 32, stored_together = 8;
/// The part of joined channels that must be doubled: a ninth gains nothing, a fifth 8 %.
constexpr std::int64_t least_share = 6;

/// What is computed of each number alone, and so before numbers are moved.
constexpr const char* activations = "Relu|LeakyRelu|Elu|Sigmoid|Tanh|HardSwish|HardSigmoid|Gelu|Clip";

/// Whether the node doubles both axes of images, each pixel four times.
bool doubles_pixels(const Graph& graph, const Node& node, std::int64_t opset) {
    if (!node.is("Resize") || opset < 11 || node.string_or("mode", "nearest") != "nearest") return false;
    const auto axes = node.ints_or("axes", {});
    if (!axes.empty() && axes != std::vector<std::int64_t>{2, 3}) return false;
    const std::string where = node.string_or("coordinate_transformation_mode", "half_pixel"),
                      rounding = node.string_or("nearest_mode", "round_prefer_floor");
    const bool in_pairs = where == "asymmetric" ? rounding == "floor"
                                                : (where == "half_pixel" || where == "pytorch_half_pixel") &&
                                                      rounding.starts_with("round_prefer");
    if (!in_pairs) return false;
    const Tensor* scales = node.input(2).empty() ? nullptr : graph.constant(node.input(2));
    if (scales != nullptr)
        return scales->to_floats() == (axes.empty() ? std::vector<float>{1, 1, 2, 2} : std::vector<float>{2, 2});
    const auto from = graph.info_or_name(node.input(0)).shape(), to = graph.info_or_name(node.output(0)).shape();
    return !node.input(3).empty() && from && to && from->size() == 4 && to->size() == 4 && (*from)[2] > 0 &&
           (*from)[3] > 0 && (*to)[2] == 2 * (*from)[2] && (*to)[3] == 2 * (*from)[3];
}

/// Along one axis: which of a phase's taps each of the window's is added to, and the padding before and behind.
struct Phase {
    std::vector<std::int64_t> tap;
    std::int64_t taps = 0, before = 0, behind = 0;
};

Phase phase_of(std::int64_t phase, std::int64_t kernel) {
    const auto halved = [](std::int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); };
    const std::int64_t first = halved(phase - kernel / 2), last = halved(phase - kernel / 2 + kernel - 1);
    Phase found{{}, last - first + 1, -first, last};
    for (std::int64_t t = 0; t < kernel; ++t)
        found.tap.push_back(halved(phase - kernel / 2 + t) - first);
    return found;
}

/// A convolution of odd square windows that leaves the size of an image, with constant weights.
const Tensor* weights_of(const Graph& graph, const Node& conv) {
    const Tensor* weight = graph.constant(conv.input(1));
    if (weight == nullptr || weight->shape().size() != 4 || !is_floating(weight->type()) ||
        conv.int_or("group", 1) != 1)
        return nullptr;
    const Shape& shape = weight->shape();
    const std::int64_t kernel = shape[2], around = kernel / 2;
    const std::string padding = conv.string_or("auto_pad", "NOTSET");
    const auto all = [&](const char* attribute, std::int64_t usual, std::int64_t wanted) {
        const auto given = conv.ints_or(attribute, {usual});
        return std::ranges::all_of(given, [&](std::int64_t each) { return each == wanted; });
    };
    const bool same = padding.starts_with("SAME") || (padding == "NOTSET" && all("pads", 0, around));
    const bool fits = kernel == shape[3] && kernel % 2 == 1 && kernel >= 3 && same && all("strides", 1, 1) &&
                      all("dilations", 1, 1) && shape[0] >= least_channels && shape[1] >= least_channels &&
                      shape[0] % stored_together == 0;
    return fits ? weight : nullptr;
}

/// The phases of `conv`, with what `activation` makes of them if it is given: the root is the last of the two.
bool write_phases(const Site& site, const Node& conv, const Node* activation) {
    Graph& graph = site.graph;
    const Node* resize = site.uses.producer(conv.input(0));
    const Tensor* weight = weights_of(graph, conv);
    if (weight == nullptr || resize == nullptr || site.uses.use_count(conv.input(0)) != 1 ||
        !doubles_pixels(graph, *resize, site.context.opset))
        return false;
    const Shape& shape = weight->shape();
    const std::int64_t kernel = shape[2], filters = shape[0] * shape[1];
    const std::vector<float> numbers = weight->to_floats();
    const std::array<Phase, 2> along{phase_of(0, kernel), phase_of(1, kernel)};
    std::vector<std::pair<Tensor, std::vector<std::int64_t>>> phases; // weights, padding
    for (const Phase& down : along) {
        for (const Phase& across : along) {
            std::vector<double> sums(static_cast<std::size_t>(filters * down.taps * across.taps));
            for (std::int64_t f = 0; f < filters; ++f)
                for (std::int64_t r = 0; r < kernel; ++r)
                    for (std::int64_t s = 0; s < kernel; ++s)
                        sums[static_cast<std::size_t>((f * down.taps + down.tap[static_cast<std::size_t>(r)]) *
                                                          across.taps +
                                                      across.tap[static_cast<std::size_t>(s)])] +=
                            numbers[static_cast<std::size_t>((f * kernel + r) * kernel + s)];
            auto tensor =
                finite_tensor(weight->type(), {shape[0], shape[1], down.taps, across.taps}, {sums.begin(), sums.end()});
            if (!tensor) return false;
            phases.emplace_back(std::move(*tensor),
                                std::vector<std::int64_t>{down.before, across.before, down.behind, across.behind});
        }
    }
    ValueInfo info = graph.info_or_name(resize->input(0));
    info.opaque_type.clear();
    const auto put = [&](Node node, std::int64_t channels) {
        if (info.dims && info.dims->size() == 4) (*info.dims)[1] = Dimension::of(channels);
        return add_before(site, std::move(node), info);
    };
    Node joined = make_node("Concat", {});
    joined.set("axis", std::int64_t{1});
    for (const auto& [taps, pads] : phases) {
        Node phase = make_node("Conv", {resize->input(0), add_constant(graph, conv.input(1), taps)});
        if (!conv.input(2).empty()) phase.inputs.push_back(conv.input(2));
        phase.set("pads", pads);
        std::string value = put(std::move(phase), shape[0]);
        if (activation != nullptr) {
            Node each = *activation;
            each.inputs[0] = value;
            value = put(std::move(each), shape[0]);
        }
        joined.inputs.push_back(std::move(value));
    }
    Node last = make_node("DepthToSpace", {put(std::move(joined), 4 * shape[0])});
    last.set("blocksize", std::int64_t{2});
    become(site.root, std::move(last), conv);
    return true;
}

/// The type of the one node that reads the root's result.
std::string_view only_reader(const Site& site) {
    const auto& readers = site.uses.consumers(site.root.output(0));
    const bool is_read_once = readers.size() == 1 && site.uses.use_count(site.root.output(0)) == 1;
    return is_read_once ? std::string_view(readers[0]->op_type) : std::string_view();
}

bool write_convolution(const Site& site) {
    // What follows it alone comes along, or is folded into its weights first.
    static const std::string later = std::string("|BatchNormalization|") + activations + "|";
    const std::string_view reader = only_reader(site);
    if (!reader.empty() && later.find("|" + std::string(reader) + "|") != std::string::npos) return false;
    return write_phases(site, site.root, nullptr);
}

/// The convolution of what was joined by channel as the sum of two, of a doubled image and of the rest.
bool split_joined(const Site& site) {
    Graph& graph = site.graph;
    const Node conv = site.root;
    const Tensor* weight = weights_of(graph, conv);
    if (weight == nullptr || only_reader(site) == "BatchNormalization") return false;
    auto kept = channel_parts(site, conv.input(0), 4);
    if (!kept || channels_of(*kept) != weight->shape()[1]) return false;
    const auto image = std::ranges::find_if(*kept, [&](const ChannelPart& part) {
        const Node* node = site.uses.producer(part.value);
        return part.channels >= least_channels && node != nullptr && site.uses.use_count(part.value) == 1 &&
               doubles_pixels(graph, *node, site.context.opset);
    });
    if (kept->size() == 1 || image == kept->end() || image->channels * least_share < weight->shape()[1]) return false;
    const ChannelPart doubled = *image;
    kept->erase(image);
    const auto of_image = weights_of_parts(site, {doubled}), of_rest = weights_of_parts(site, *kept);
    if (!of_image || !of_rest) return false;
    const std::string rest = convolved(site, joined_parts(site, *kept), *of_rest, conv.input(2));
    become(site.root, make_node("Add", {rest, convolved(site, doubled.value, *of_image, "")}), conv);
    return true;
}

bool write_activated(const Site& site) { return write_phases(site, site.match.node("conv"), &site.root); }

} // namespace

//  x                                 x
//  |                                 Conv, once a phase: taps that meet the same pixel added up
//  Resize (nearest, by 2)     ==>    |
//  |                                 (Relu)
//  Conv                              |
//  |                                 Concat, by channel
//  (Relu)                            |
//  |                                 DepthToSpace by 2
//  y                                 y
//
// A convolution of an image whose pixels were doubled (decoders of diffusion models, GANs, U-Nets, depth) reads each of
// them several times: results of one phase are a convolution of the small image. Of a 3 x 3 window 4 products of 9 are
// left, of a 5 x 5 one 9 of 25, and the large image is not written.
Result<bool> convolve_before_doubling(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Conv"), write_convolution},
        {Pattern::op(activations, {Pattern::op("Conv", {}, "conv").used_once()}), write_activated}};
    return rewrite(graph, context, rules);
}

//  x        s                        x        s
//  |        |                        |        |
//  Resize   |                        Resize   |
//  |        |                 ==>    |        |
//  Concat, by channel                Conv     Conv
//  |                                 |        |
//  Conv                              +-- Add -+
//
// Where doubled pixels are joined with another image (U-Nets), they have a convolution of their own first, which
// convolve_before_doubling can take. The sum is a pass over memory more: GPUs multiply sooner than that.
Result<bool> convolve_apart(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("Conv"), split_joined}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
