#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A factor of the filters: a number a sample and input or output channel.
struct Factor {
    std::string value;
    std::int64_t samples = 1, channels = 1;
    bool divides = false;
};

/// Filters as [samples, output channels, input channels, window], or with both kinds of channels the other way round.
struct Modulated {
    Tensor base; ///< one sample's
    std::vector<Factor> inputs, outputs;
    std::int64_t samples = 1;
    bool turned = false; ///< a Transpose of both kinds of channels follows
};

/// With leading ones to this rank.
std::optional<Shape> aligned(Shape shape, std::size_t rank) {
    if (shape.size() > rank) return std::nullopt;
    shape.insert(shape.begin(), rank - shape.size(), 1);
    return shape;
}

/// The product as far as it is one of a constant and factors; `output_axis` is 1 or 2, of [samples, a, b, window].
std::optional<Modulated> factors_of(const Site& site, std::string value, const Shape& dims, std::size_t output_axis) {
    Modulated found;
    const std::size_t rank = dims.size();
    for (;;) {
        if (const Tensor* base = site.graph.constant(value)) {
            const auto shape = aligned(base->shape(), rank);
            if (!shape || (*shape)[0] != 1 || !std::equal(shape->begin() + 1, shape->end(), dims.begin() + 1))
                return std::nullopt;
            found.base = *base;
            found.samples = dims[0];
            return found;
        }
        const Node* node = site.uses.producer(value);
        if (node == nullptr || (!node->is("Mul") && !node->is("Div"))) return std::nullopt;
        std::optional<std::size_t> at;
        for (std::size_t i = 0; i < 2 && !at; ++i) {
            const auto known = known_sizes(site.graph, node->input(i));
            const auto shape = known ? aligned(*known, rank) : std::nullopt;
            if (!shape || site.graph.constant(node->input(i)) != nullptr) continue;
            const bool no_window = std::all_of(shape->begin() + 3, shape->end(), [](std::int64_t n) { return n == 1; });
            if (no_window && ((*shape)[1] == 1 || (*shape)[2] == 1) && (i == 1 || node->is("Mul"))) at = i;
        }
        if (!at) return std::nullopt;
        const Shape shape = *aligned(*known_sizes(site.graph, node->input(*at)), rank);
        const bool of_inputs = shape[3 - output_axis] != 1;
        Factor factor{node->input(*at), shape[0], shape[of_inputs ? 3 - output_axis : output_axis], node->is("Div")};
        (of_inputs ? found.inputs : found.outputs).push_back(std::move(factor));
        value = node->input(1 - *at);
    }
}

/// The first so many axes in order, two of them exchanged.
Sizes exchanged(std::size_t rank, std::size_t a, std::size_t b) {
    Sizes order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[a], order[b]);
    return order;
}

/// The filters of a Conv or ConvTranspose: [samples * a, b, window] of [samples, a, b, window].
std::optional<Modulated> modulated(const Site& site, const Shape& filter, std::int64_t groups) {
    std::string value = site.root.input(1);
    const Node* node = site.uses.producer(value);
    if (node != nullptr && node->is("Reshape")) value = node->input(0);
    bool turned = false;
    node = site.uses.producer(value);
    auto dims = known_sizes(site.graph, value);
    if (!dims) return std::nullopt;
    Sizes merged = filter;
    merged[0] /= groups;
    merged.insert(merged.begin(), groups);
    if (groups == 1 && *dims == filter) dims = merged;
    if (*dims != merged || filter[0] % groups != 0) return std::nullopt;
    if (node != nullptr && node->is("Transpose")) {
        if (node->ints_or("perm", {}) != exchanged(dims->size(), 1, 2)) return std::nullopt;
        turned = true;
        value = node->input(0);
        std::swap((*dims)[1], (*dims)[2]);
        node = site.uses.producer(value);
        // What only joins the first two sizes and takes them apart again.
        if (node != nullptr && node->is("Reshape") && site.uses.producer(node->input(0)) != nullptr &&
            known_sizes(site.graph, node->input(0)) == dims)
            value = node->input(0);
    }
    auto found = factors_of(site, value, *dims, site.root.is("Conv") != turned ? 1 : 2);
    if (found) found->turned = turned;
    return found;
}

/// The power of two next to the root of the mean, over output channels, of the sum of squares.
float size_of_filters(const Tensor& base, std::int64_t outputs) {
    double sum = 0;
    for (const float value : base.to_floats())
        sum += static_cast<double>(value) * value;
    const double root = std::sqrt(sum / static_cast<double>(outputs));
    if (!std::isfinite(root) || root < 1e-6 || root > 1e6) return 1;
    return static_cast<float>(std::exp2(std::round(std::log2(root))));
}

/// The value, of these sizes, with each factor by sample and channel.
std::string times(const Site& site, std::string value, const std::vector<Factor>& factors, const Shape& dims,
                  float scale = 1) {
    const DataType type = type_of(site.graph, site.root.input(0));
    for (const Factor& factor : factors) {
        Shape sizes(dims.size(), 1);
        sizes[0] = factor.samples;
        sizes[1] = factor.channels;
        std::string by_channel = reshaped(site, factor.value, sizes);
        if (scale != 1) {
            const float number = factor.divides ? 1 / scale : scale;
            const std::string constant = add_scalar(site.graph, "scale", type, number);
            by_channel = add_before(site, make_node("Mul", {by_channel, constant}), type, sizes);
            scale = 1;
        }
        value = add_before(site, make_node(factor.divides ? "Div" : "Mul", {value, by_channel}), type, dims);
    }
    return value;
}

bool modulate_images(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    if (graph.constant(root.input(1)) != nullptr) return false;
    const auto x = known_sizes(graph, root.input(0)), filter = known_sizes(graph, root.input(1)),
               out = known_sizes(graph, root.output(0));
    const std::int64_t groups = root.int_or("group", 1);
    const DataType type = type_of(graph, root.input(0));
    if (!x || !filter || !out || x->size() < 3 || filter->size() != x->size() || out->size() != x->size() ||
        groups < 1 || (groups > 1 && (*x)[0] != 1) || (*x)[1] % groups != 0 || (*out)[1] % groups != 0)
        return false;
    const auto found = modulated(site, *filter, groups);
    if (!found || (found->inputs.empty() && found->outputs.empty()) || found->base.type() != type) return false;
    const std::int64_t samples = groups > 1 ? groups : (*x)[0];
    Shape image = *x, result = *out;
    image[0] = result[0] = samples;
    image[1] /= groups;
    result[1] /= groups;
    // The filters of one sample, divided by their size where factors of the results take it back: what stands between
    // is then no larger than the image, and fits 16 bits.
    Shape own = *filter;
    own[0] /= groups;
    if (found->turned) std::swap(own[0], own[1]);
    const float size = found->outputs.empty() ? 1 : size_of_filters(found->base, result[1]);
    std::vector<float> numbers = found->base.to_floats();
    for (float& number : numbers)
        number /= size;
    const auto weights = finite_tensor(type, own, numbers);
    if (!weights) return false;

    std::string weight = add_constant(graph, "filters", *weights);
    if (found->turned) {
        Node turn = make_node("Transpose", {weight});
        turn.set("perm", exchanged(own.size(), 0, 1));
        std::swap(own[0], own[1]);
        weight = add_before(site, std::move(turn), type, own);
    }
    std::string value = groups > 1 ? reshaped(site, root.input(0), image) : root.input(0);
    value = times(site, value, found->inputs, image);
    const bool biased = !root.input(2).empty(), apart = groups > 1 || !found->outputs.empty();
    Node plain = root;
    plain.inputs = {value, weight};
    if (biased && !apart) plain.inputs.push_back(root.input(2));
    plain.set("group", std::int64_t{1});
    value = add_before(site, std::move(plain), type, result);
    value = times(site, value, found->outputs, result, size);
    if (biased && apart) {
        Shape by_channel(result.size(), 1);
        by_channel[0] = groups;
        by_channel[1] = result[1];
        value = add_before(site, make_node("Add", {value, reshaped(site, root.input(2), by_channel)}), type, result);
    }
    Node whole = reshape_node(graph, value, *out);
    become(root, std::move(whole), root);
    return true;
}

} // namespace

//  x [1, B C, ...]   W [M, C, ...] * s [B, 1, C] * d [B, M, 1]        x [B, C, ...] * s   W
//   \                /                                                 \                 /
//    Conv, B groups                                            ==>      Conv, one group * d
//
// Modulated convolutions (Karras et al., Analyzing and Improving the Image Quality of StyleGAN, 2020, 3): the samples
// are images of a batch again, and the filters constants.
Result<bool> modulate_images_not_filters(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("Conv|ConvTranspose"), modulate_images}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
