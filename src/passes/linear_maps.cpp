#include "passes/linear_maps.hpp"

#include <algorithm>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {

std::optional<Pointwise> pointwise_of(const Graph& graph, const Node& node) {
    if (!node.is("Conv") || node.int_or("group", 1) != 1) return std::nullopt;
    const Tensor* weight = graph.constant(node.input(1));
    if (weight == nullptr || !is_floating(weight->type()) || weight->count() == 0 || weight->shape().size() < 3)
        return std::nullopt;
    const Shape& shape = weight->shape();
    const auto all = [&](const char* attribute, std::int64_t usual) {
        return std::ranges::all_of(node.ints_or(attribute, {}), [&](std::int64_t each) { return each == usual; });
    };
    const bool window_of_one = std::all_of(shape.begin() + 2, shape.end(), [](std::int64_t n) { return n == 1; });
    if (!window_of_one || !all("strides", 1) || !all("pads", 0)) return std::nullopt;
    return Pointwise{weight, shape[0], shape[1]};
}

bool is_padded(const Node& conv) {
    const std::string mode = conv.string_or("auto_pad", "NOTSET");
    if (mode != "NOTSET") return mode != "VALID";
    return std::ranges::any_of(conv.ints_or("pads", {}), [](std::int64_t each) { return each != 0; });
}

std::optional<std::vector<double>> constant_bias(const Graph& graph, const std::string& name, std::int64_t count,
                                                 DataType type) {
    if (name.empty()) return std::vector<double>{};
    const Tensor* bias = graph.constant(name);
    if (bias == nullptr || bias->type() != type || static_cast<std::int64_t>(bias->count()) != count)
        return std::nullopt;
    const auto values = bias->to_floats();
    return std::vector<double>(values.begin(), values.end());
}

namespace {

/// x -> W x + b over `from` numbers, `to` results; row by row.
struct LinearMap {
    std::int64_t to = 0, from = 0;
    std::vector<double> weight, bias; ///< the bias empty where there is none
};

/// A convolution's weights as a map from all that its window reads.
std::optional<LinearMap> map_of(const Graph& graph, const Node& conv) {
    const Tensor* weight = graph.constant(conv.input(1));
    if (weight == nullptr || !is_floating(weight->type()) || weight->count() == 0 || weight->shape().size() < 3 ||
        conv.int_or("group", 1) != 1)
        return std::nullopt;
    LinearMap map;
    map.to = weight->shape()[0];
    map.from = static_cast<std::int64_t>(weight->count()) / map.to;
    const auto numbers = weight->to_floats();
    map.weight.assign(numbers.begin(), numbers.end());
    auto bias = constant_bias(graph, conv.input(2), map.to, weight->type());
    if (!bias) return std::nullopt;
    map.bias = std::move(*bias);
    return map;
}

/// `second` of what `first` gives.
LinearMap joined(const LinearMap& first, const LinearMap& second) {
    LinearMap map{second.to, first.from, std::vector<double>(static_cast<std::size_t>(second.to * first.from)), {}};
    if (!first.bias.empty() || !second.bias.empty()) map.bias.resize(static_cast<std::size_t>(second.to));
    for (std::int64_t row = 0; row < second.to; ++row) {
        double* to = map.weight.data() + row * first.from;
        double shift = second.bias.empty() ? 0 : second.bias[static_cast<std::size_t>(row)];
        for (std::int64_t k = 0; k < second.from; ++k) {
            const double factor = second.weight[static_cast<std::size_t>(row * second.from + k)];
            const double* from = first.weight.data() + k * first.from;
            for (std::int64_t i = 0; i < first.from; ++i)
                to[i] += factor * from[i];
            if (!first.bias.empty()) shift += factor * first.bias[static_cast<std::size_t>(k)];
        }
        if (!map.bias.empty()) map.bias[static_cast<std::size_t>(row)] = shift;
    }
    return map;
}

/// A matrix of so many columns, its rows and columns exchanged.
std::vector<double> turned(const std::vector<double>& matrix, std::int64_t columns) {
    const auto width = static_cast<std::size_t>(columns), height = matrix.size() / width;
    std::vector<double> other;
    other.reserve(matrix.size());
    for (std::size_t column = 0; column < width; ++column)
        for (std::size_t row = 0; row < height; ++row)
            other.push_back(matrix[row * width + column]);
    return other;
}

/// Whether one map takes at most three quarters of the products of both, and a second or so to make.
bool pays(const LinearMap& first, const LinearMap& second) {
    constexpr double most_to_join = 1 << 30;
    const double one = static_cast<double>(second.to) * static_cast<double>(first.from);
    const double both = static_cast<double>(first.to) * static_cast<double>(first.from + second.to);
    return one * 4 <= both * 3 && one * static_cast<double>(first.to) <= most_to_join;
}

/// The map's numbers as tensors of this type; nothing where one is not finite in it.
struct MapTensors {
    Tensor weight;
    std::optional<Tensor> bias;
};
std::optional<MapTensors> tensors_of(const LinearMap& map, DataType type, const Shape& weight_shape, Shape bias_shape) {
    const auto weight = finite_tensor(type, weight_shape, {map.weight.begin(), map.weight.end()});
    if (!weight) return std::nullopt;
    if (map.bias.empty()) return MapTensors{*weight, std::nullopt};
    auto bias = finite_tensor(type, std::move(bias_shape), {map.bias.begin(), map.bias.end()});
    if (!bias) return std::nullopt;
    return MapTensors{*weight, std::move(bias)};
}

bool join_convolutions(const Site& site) {
    const Node& first = site.match.node("first");
    const auto second = pointwise_of(site.graph, site.root);
    const auto from = map_of(site.graph, first), to = second ? map_of(site.graph, site.root) : std::nullopt;
    const Tensor* weight = site.graph.constant(first.input(1));
    if (!from || !to || from->to != to->from || weight->type() != second->weight->type() || !pays(*from, *to))
        return false;
    Shape shape = weight->shape();
    if (shape.size() != second->weight->shape().size()) return false;
    shape[0] = to->to;
    const auto made = tensors_of(joined(*from, *to), weight->type(), shape, {to->to});
    if (!made) return false;
    Node conv = first;
    conv.inputs = {first.input(0), add_constant(site.graph, first.input(1), made->weight)};
    if (made->bias) conv.inputs.push_back(add_constant(site.graph, first.input(1) + ".bias", *made->bias));
    become(site.root, std::move(conv), first);
    return true;
}

/// What lies between a product whose columns are channels, last, and the image that a convolution reads.
struct ProductBefore {
    const Node* reshape = nullptr; ///< lines to images, if not nullptr
    const Node* turn = nullptr;    ///< channels to the second axis
    const Node* add = nullptr;     ///< of the bias, if not nullptr
    const Node* product = nullptr;
};

std::optional<ProductBefore> product_before(const Site& site) {
    const auto made_for_this_alone = [&](const std::string& value) -> const Node* {
        return site.uses.use_count(value) == 1 ? site.uses.producer(value) : nullptr;
    };
    ProductBefore found;
    const Node* node = made_for_this_alone(site.root.input(0));
    if (node != nullptr && node->is("Reshape")) {
        found.reshape = node;
        node = made_for_this_alone(node->input(0));
    }
    if (node == nullptr || !node->is("Transpose")) return std::nullopt;
    found.turn = node;
    node = made_for_this_alone(node->input(0));
    if (node != nullptr && node->is("Add")) {
        found.add = node;
        const bool constant_first = site.graph.constant(node->input(0)) != nullptr;
        node = made_for_this_alone(node->input(constant_first ? 1 : 0));
    }
    if (node == nullptr || !node->is("MatMul")) return std::nullopt;
    found.product = node;
    return found;
}

/// The sizes that make images of `results` channels of the lines that `reshape` makes images of; nothing where it does
/// anything else, or where that is not known.
std::optional<std::vector<std::int64_t>> image_target(const Graph& graph, const Node& reshape, std::int64_t channels,
                                                      std::int64_t results) {
    const auto from = graph.info_or_name(reshape.input(0)).shape(), to = graph.info_or_name(reshape.output(0)).shape();
    const Tensor* target = graph.constant(reshape.input(1));
    if (!from || !to || target == nullptr || from->size() != 3 || to->size() < 3 || (*from)[1] != channels ||
        (*to)[1] != channels || (*from)[2] < 1)
        return std::nullopt;
    std::int64_t pixels = 1;
    for (std::size_t i = 2; i < to->size(); ++i)
        pixels *= (*to)[i];
    auto sizes = target->to_int64s();
    if (pixels != (*from)[2] || sizes.size() != to->size()) return std::nullopt;
    if (sizes[1] == channels) sizes[1] = results;
    return sizes;
}

bool join_product(const Site& site) {
    Graph& graph = site.graph;
    const auto second = pointwise_of(graph, site.root);
    const auto found = second ? product_before(site) : std::nullopt;
    if (!found) return false;
    const Tensor* weight = graph.constant(found->product->input(1));
    const std::int64_t channels = second->channels, results = second->results;
    const auto info = graph.info_or_name(found->product->output(0));
    if (weight == nullptr || weight->shape().size() != 2 || weight->shape()[1] != channels ||
        weight->type() != second->weight->type() || !info.dims || info.dims->size() < 3)
        return false;
    const auto perm = found->turn->ints_or("perm", {});
    const auto rank = static_cast<std::int64_t>(info.dims->size());
    if (static_cast<std::int64_t>(perm.size()) != rank || perm[0] != 0 || perm[1] != rank - 1) return false;
    std::optional<std::vector<std::int64_t>> sizes;
    if (found->reshape != nullptr) {
        sizes = image_target(graph, *found->reshape, channels, results);
        if (!sizes) return false;
    }
    // x W, with W's rows the inputs: turned, it is the map's matrix.
    const auto numbers = weight->to_floats();
    LinearMap first{channels, weight->shape()[0], turned({numbers.begin(), numbers.end()}, channels), {}};
    if (found->add != nullptr) {
        const bool constant_first = graph.constant(found->add->input(0)) != nullptr;
        const std::string& name = found->add->input(constant_first ? 0 : 1);
        const Tensor* shift = graph.constant(name);
        const bool along_columns = shift != nullptr && !shift->shape().empty() && shift->shape().back() == channels &&
                                   static_cast<std::int64_t>(shift->shape().size()) <= rank;
        auto bias = along_columns ? constant_bias(graph, name, channels, weight->type()) : std::nullopt;
        if (!bias) return false;
        first.bias = std::move(*bias);
    }
    const auto to = map_of(graph, site.root);
    if (!to || !pays(first, *to)) return false;
    LinearMap both = joined(first, *to);
    both.weight = turned(both.weight, both.from);
    const auto made = tensors_of(both, weight->type(), {first.from, results}, {results});
    if (!made) return false;

    // In the place of `like`, named as it is, with what is known of `value` but for the number of channels.
    const auto put = [&](Node node, const Node& like, const std::string& value, std::size_t axis) {
        ValueInfo known = graph.info_or_name(value);
        if (known.dims && axis < known.dims->size()) (*known.dims)[axis] = Dimension::of(results);
        node.name = like.name;
        node.outputs = {graph.unique_name(like.output(0))};
        std::string name = node.outputs[0];
        insert_before(site, std::move(node), std::move(known));
        return name;
    };
    const auto last = static_cast<std::size_t>(rank - 1);
    std::string value = put(
        make_node("MatMul", {found->product->input(0), add_constant(graph, found->product->input(1), made->weight)}),
        *found->product, found->product->output(0), last);
    if (made->bias)
        value = put(make_node("Add", {value, add_constant(graph, found->product->input(1) + ".bias", *made->bias)}),
                    found->add != nullptr ? *found->add : site.root, found->product->output(0), last);
    Node turn = *found->turn;
    turn.inputs = {value};
    const Node origin = site.root;
    if (!sizes) {
        become(site.root, std::move(turn), origin);
        return true;
    }
    value = put(std::move(turn), *found->turn, found->turn->output(0), 1);
    Node reshape = *found->reshape;
    reshape.inputs = {value, add_constant(graph, found->reshape->input(1),
                                          Tensor::of_int64s("", {static_cast<std::int64_t>(sizes->size())}, *sizes))};
    become(site.root, std::move(reshape), origin);
    return true;
}

} // namespace

//  x                               x
//  |                               |
//  Conv or MatMul (+ Add)          Conv or MatMul, of the product of both matrices
//  |                               |
//  (Transpose, Reshape)   ==>      (Transpose, Reshape)
//  |                               |
//  Conv(1x1)                       y
//  |
//  y
//
// Two linear maps in a row are one, whose matrix is the product of theirs, where that is smaller than both: not where
// the values between are few, on purpose.
Result<bool> merge_linear_maps(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Conv", {Pattern::op("Conv", {Pattern::any()}, "first").used_once()}), join_convolutions},
        {Pattern::op("Conv"), join_product}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
