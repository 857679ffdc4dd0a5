#include <algorithm>
#include <tuple>
#include <utility>

#include "passes/channel_affine.hpp"
#include "passes/linear_maps.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// A layer with the numbers by which it takes an affine map of its input.
struct NewNumbers {
    Node* layer = nullptr;
    std::optional<Tensor> weight, bias; ///< nothing: as it was
    Node* add = nullptr;                ///< of a MatMul: the Add that has its bias
};

/// Axes of what the root reads, and gives; 0: not known.
std::size_t rank_before(const Site& site) {
    const auto info = site.graph.info(site.match.value("x"));
    return info && info->dims ? info->dims->size() : 0;
}

/// What the root does to each channel that the layer reads; nothing where it does not go by these channels.
std::optional<Affine> affine_before(const Site& site, const Node& layer, const Linear& linear) {
    const Node& op = site.root;
    const std::size_t channels = input_channels(layer, linear);
    const std::size_t rank = rank_before(site);
    if (op.is("BatchNormalization")) {
        // Its channels are the second axis, those of a MatMul the last.
        if (layer.is("MatMul") && rank != 2) return std::nullopt;
        return affine_of_norm(site.match, op, channels);
    }
    const Tensor& constant = site.match.constant("c");
    if (constant.type() != linear.weight->type()) return std::nullopt;
    // One number for all is left before a MatMul: attention's scale belongs to attention.
    if (layer.is("MatMul") && constant.count() == 1) return std::nullopt;
    const auto values = layer.is("MatMul") ? along_columns(constant, channels, rank)
                                           : per_channel(constant, linear.weight->shape().size(), channels);
    if (!values) return std::nullopt;
    return affine_of_arithmetic(site.match, op, *values);
}

/// The Add that gives a MatMul its bias, with the bias; nullptr if there is none.
std::pair<Node*, const Tensor*> add_behind(const Site& site, const Node& product, const Linear& linear) {
    const std::string& value = product.output(0);
    if (site.uses.use_count(value) != 1 || site.graph.is_output(value)) return {};
    Node* add = site.uses.consumers(value)[0];
    if (!add->is("Add")) return {};
    const Tensor* bias = site.graph.constant(add->input(add->input(0) == value ? 1 : 0));
    const bool fits = bias != nullptr && bias->type() == linear.weight->type() &&
                      along_columns(*bias, linear.channels, rank_before(site));
    return fits ? std::pair{add, bias} : std::pair<Node*, const Tensor*>{};
}

/// The layer as it is on the root's input; nothing where it cannot be, or a number would not be finite.
std::optional<NewNumbers> new_numbers(const Site& site, Node& layer) {
    if (layer.int_or("transA", 0) != 0) return std::nullopt; // its last axis is not what is summed over
    auto linear = linear_of(site.graph, layer);
    if (!linear) return std::nullopt;
    const auto affine = affine_before(site, layer, *linear);
    if (!affine) return std::nullopt;
    const Tensor& weight = *linear->weight;
    NewNumbers result{&layer, {}, {}, nullptr};
    const std::vector<float> values = weight.to_floats();
    if (std::ranges::any_of(affine->scale, [](double each) { return each != 1; })) {
        // Where others read them, there would be two of a large constant.
        if (site.uses.use_count(layer.input(1)) > 1) return std::nullopt;
        std::vector<float> scaled(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            scaled[i] = static_cast<float>(values[i] * affine->scale[input_channel(layer, *linear, i)]);
        result.weight = finite_tensor(weight.type(), weight.shape(), scaled);
        if (!result.weight) return std::nullopt;
    }
    if (std::ranges::all_of(affine->shift, [](double each) { return each == 0; })) return result;
    // Padding is with noughts, which a shift in the weights would move, too.
    if (is_padded(layer)) return std::nullopt;
    if (layer.is("MatMul")) std::tie(result.add, linear->bias) = add_behind(site, layer, *linear);
    std::vector<double> sums(linear->channels);
    for (std::size_t i = 0; i < values.size(); ++i)
        sums[output_channel(layer, *linear, i)] += values[i] * affine->shift[input_channel(layer, *linear, i)];
    const auto old = linear->bias == nullptr ? std::vector<float>{0} : linear->bias->to_floats();
    std::vector<float> bias(linear->channels);
    for (std::size_t c = 0; c < bias.size(); ++c) {
        const double before = linear->bias_factor * old[old.size() == 1 ? 0 : c];
        bias[c] = static_cast<float>(before + layer.float_or("alpha", 1) * sums[c]);
    }
    result.bias = finite_tensor(weight.type(), {static_cast<std::int64_t>(bias.size())}, bias);
    return result.bias ? std::optional(std::move(result)) : std::nullopt;
}

/// Adds a bias to what a MatMul gives, in its name.
void add_bias(Graph& graph, Node& product, const std::string& bias) {
    Node add = make_node("Add", {graph.unique_name(product.output(0)), bias});
    add.name = product.name;
    add.outputs = {product.output(0)};
    if (auto info = graph.info(product.output(0))) {
        info->name = add.inputs[0];
        graph.value_infos.insert_or_assign(add.inputs[0], std::move(*info));
    }
    product.outputs[0] = add.inputs[0];
    const auto at = std::ranges::find_if(graph.nodes, [&](const auto& each) { return each.get() == &product; });
    graph.insert(static_cast<std::size_t>(at - graph.nodes.begin()) + 1, std::move(add));
}

void write_numbers(Graph& graph, const NewNumbers& numbers) {
    Node& layer = *numbers.layer;
    const std::string stem = layer.input(1);
    if (numbers.weight) layer.inputs[1] = add_constant(graph, stem, *numbers.weight);
    if (!numbers.bias) return;
    if (!layer.is("MatMul")) {
        layer.inputs.resize(3);
        layer.inputs[2] = add_constant(graph, layer.input(2).empty() ? stem + ".bias" : layer.input(2), *numbers.bias);
        layer.erase_attribute("beta");
    } else if (numbers.add == nullptr) {
        add_bias(graph, layer, add_constant(graph, stem + ".bias", *numbers.bias));
    } else {
        std::string& bias = numbers.add->inputs[numbers.add->input(0) == layer.output(0) ? 1 : 0];
        bias = add_constant(graph, bias, *numbers.bias);
    }
}

/// Whether a layer before the root, whose result nobody else reads, takes the root's numbers, or has them as its bias.
bool is_of_layer_before(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    return node != nullptr &&
           (node->is("Conv") || node->is("ConvTranspose") || node->is("Gemm") || node->is("MatMul")) &&
           site.graph.constant(node->input(1)) != nullptr && site.uses.use_count(value) == 1;
}

/// Whether the constants behind `value` are the end of something that is written out there, and that engines take as
/// one: the factors of a normalisation, the last number of GELU and HardSwish. They end in a product of two computed
/// values.
bool is_of_written_form(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    while (node != nullptr) {
        if (node->is("InstanceNormalization")) return true; // GroupNorm's, with a Reshape
        const bool product = node->is("Mul") || node->is("Div");
        if (node->is("Reshape")) {
            node = site.uses.producer(node->input(0));
        } else if (product || node->is("Add") || node->is("Sub")) {
            const bool constant_first = site.graph.constant(node->input(0)) != nullptr;
            if (!constant_first && site.graph.constant(node->input(1)) == nullptr) return product;
            node = site.uses.producer(node->input(constant_first ? 1 : 0));
        } else {
            return false;
        }
    }
    return false;
}

bool fold_forward(const Site& site) {
    const std::string& x = site.match.value("x");
    const std::string& y = site.root.output(0);
    const bool fits = site.root.is("BatchNormalization")
                          ? is_inference(site.root, site.context.opset)
                          : site.context.opset >= 7 && keeps_shape(site.graph, x, site.match.constant("c")) &&
                                !is_of_written_form(site, x);
    if (!fits || site.graph.is_output(y) || is_of_layer_before(site, x)) return false;
    std::vector<Node*> layers;
    for (Node* reader : site.uses.consumers(y)) {
        if (reader->is("Shape")) continue; // x has the same
        const bool is_layer = reader->is("Conv") || reader->is("Gemm") || reader->is("MatMul");
        if (!is_layer || reader->input(0) != y) return false;
        layers.push_back(reader);
    }
    std::vector<NewNumbers> numbers;
    for (Node* layer : layers) {
        auto each = new_numbers(site, *layer);
        if (!each) return false;
        numbers.push_back(std::move(*each));
    }
    for (const NewNumbers& each : numbers)
        write_numbers(site.graph, each);
    return !numbers.empty() && bypass(site, x);
}

} // namespace

//  x                               x ---------------+
//  |                               |                |
//  BatchNormalization              Conv(W * s,      Conv(V * s,
//  |            |            ==>        b + W t)         c + V t)
//  Conv(W, b)   Conv(V, c)         |                |
//  |            |                  y                z
//  y            z
//                                  s and t: scale and shift of each input channel
//
// Likewise Mul, Add, Sub and Div by one number a channel, or for all, and Gemm; before MatMul by one number a column.
// A residual sum stands before such a normalisation (Next-ViT), or the input of a network that normalises its pictures
// itself. Where a Conv is padded only a scale can go. All readers are such layers, or nothing is gained.
Result<bool> fold_affine_forward(Graph& graph, PassContext& context) {
    const auto x = [] { return Pattern::any("x"); };
    const auto c = [] { return Pattern::constant("c"); };
    static const std::vector<Rule> rules{
        {Pattern::op("BatchNormalization", {x(), Pattern::constant("scale"), Pattern::constant("shift"),
                                            Pattern::constant("mean"), Pattern::constant("variance")}),
         fold_forward},
        {Pattern::op("Mul|Add", {x(), c()}).any_order(), fold_forward},
        {Pattern::op("Sub|Div", {x(), c()}), fold_forward},
        {Pattern::op("Sub", {c(), x()}), fold_forward},
    };
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
