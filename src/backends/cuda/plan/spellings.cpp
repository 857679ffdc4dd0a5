#include "backends/cuda/plan/spellings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "backends/cuda/plan/einsum.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::cuda {
namespace {

/// A mask's value from here down leaves nothing of a score in float32: 1e9 is a multiple of 64.
constexpr float absorbing = -1e9F;

Shape dims_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->shape().value_or(Shape{}) : Shape{};
}

std::optional<float> scalar(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    if (tensor == nullptr || tensor->count() != 1) return std::nullopt;
    return uniform_value(*tensor);
}

bool near(std::optional<double> value, double expected) {
    return value && std::abs(*value - expected) <= 1e-3 * std::abs(expected);
}

/// Puts a node before the site's root; the name of what it gives.
std::string add_before(const Site& site, Node node, DataType type, const Shape& dims) {
    std::string name = site.graph.unique_name(site.root.output(0) + "/" + node.op_type);
    node.outputs = {name};
    node.name = name;
    ValueInfo info;
    info.name = name;
    info.type = type;
    info.dims.emplace();
    for (const std::int64_t size : dims)
        info.dims->push_back(Dimension::of(size));
    site.graph.value_infos.insert_or_assign(name, std::move(info));
    const auto& nodes = site.graph.nodes;
    const auto place =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.get() == &site.root; });
    site.graph.insert(static_cast<std::size_t>(place - nodes.begin()), std::move(node));
    return name;
}

// ---- LayerNorm ----

/// ReduceMean over the last dimension alone, which it keeps.
bool is_mean(const Graph& graph, const Node& node) {
    const auto rank = static_cast<std::int64_t>(dims_of(graph, node.input(0)).size());
    if (!node.is("ReduceMean") || node.int_or("keepdims", 1) != 1 || rank == 0) return false;
    const auto axes = constant_integers(graph, node, "axes", 1);
    return axes && axes->size() == 1 && (axes->front() == -1 || axes->front() == rank - 1);
}

//  x -> ReduceMean \        d*d -> ReduceMean -> Add eps -> Sqrt \                 x, ones
//  x ------------- Sub = d ------------------------------------- Div     ==>   LayerNormalization
Rule whitening() {
    const auto centred = [] {
        return Pattern::op("Sub", {Pattern::any("x"), Pattern::op("ReduceMean", {Pattern::any("x")}, "mean")}, "d");
    };
    const auto apply = [](const Site& site) {
        Graph& graph = site.graph;
        const Node& square = site.match.node("square");
        const bool squared =
            square.is("Mul") ? square.input(0) == square.input(1) : near(scalar(graph, square.input(1)), 2);
        const Node& sum = site.match.node("sum");
        const std::string& variance = site.match.node("variance").output(0);
        const auto epsilon = scalar(graph, sum.input(sum.input(0) == variance ? 1 : 0));
        const Shape dims = dims_of(graph, site.match.value("x"));
        if (!squared || !epsilon || dims.empty() || !is_mean(graph, site.match.node("mean")) ||
            !is_mean(graph, site.match.node("variance")) || type_of(graph, site.match.value("x")) != DataType::float32)
            return false;
        const std::vector<float> ones(static_cast<std::size_t>(dims.back()), 1.0F);
        const std::string gamma = add_constant(graph, "ones", Tensor::of_floats("", {dims.back()}, ones));
        Node norm = make_node("LayerNormalization", {site.match.value("x"), gamma});
        norm.set("axis", std::int64_t{-1});
        norm.set("epsilon", *epsilon);
        become(site.root, std::move(norm), site.root);
        return true;
    };
    Pattern deviation = Pattern::op(
        "Sqrt", {Pattern::op("Add",
                             {Pattern::op("ReduceMean", {Pattern::op("Pow|Mul", {centred()}, "square")}, "variance"),
                              Pattern::any()},
                             "sum")
                     .any_order()});
    return {Pattern::op("Div", {centred(), std::move(deviation)}), apply};
}

//  x*x -> ReduceMean -> Add eps -> Sqrt -> (Reciprocal, 1 / ) \                 x, ones
//  x ------------------------------------------------------ Div, Mul   ==>   RMSNormalization
Rule by_root_mean_square(const char* type) {
    const auto apply = [](const Site& site) {
        Graph& graph = site.graph;
        const std::string& x = site.match.value("x");
        const Node& square = site.match.node("square");
        const bool squared =
            square.is("Mul") ? square.input(0) == square.input(1) : near(scalar(graph, square.input(1)), 2);
        const Node& sum = site.match.node("sum");
        const std::string& mean = site.match.node("mean").output(0);
        const auto epsilon = scalar(graph, sum.input(sum.input(0) == mean ? 1 : 0));
        const Shape dims = dims_of(graph, x);
        if (site.root.is("Mul")) {
            const Node& inverse = site.match.node("inverse");
            if (inverse.is("Div") &&
                (!near(scalar(graph, inverse.input(0)), 1) || inverse.input(1) != site.match.node("root").output(0)))
                return false;
        }
        if (!squared || !epsilon || dims.empty() || !is_mean(graph, site.match.node("mean")) ||
            type_of(graph, x) != DataType::float32)
            return false;
        const std::vector<float> ones(static_cast<std::size_t>(dims.back()), 1.0F);
        const std::string gamma = add_constant(graph, "ones", Tensor::of_floats("", {dims.back()}, ones));
        Node norm = make_node("RMSNormalization", {x, gamma});
        norm.set("axis", std::int64_t{-1});
        norm.set("epsilon", *epsilon);
        become(site.root, std::move(norm), site.root);
        return true;
    };
    Pattern root = Pattern::op(
        "Sqrt",
        {Pattern::op("Add",
                     {Pattern::op("ReduceMean", {Pattern::op("Pow|Mul", {Pattern::any("x")}, "square")}, "mean"),
                      Pattern::any()},
                     "sum")
             .any_order()},
        "root");
    if (std::string_view(type) == "Div") return {Pattern::op("Div", {Pattern::any("x"), std::move(root)}), apply};
    if (std::string_view(type) == "Reciprocal") {
        Pattern inverse = Pattern::op("Reciprocal", {std::move(root)}, "inverse");
        return {Pattern::op("Mul", {Pattern::any("x"), std::move(inverse)}).any_order(), apply};
    }
    Pattern inverse = Pattern::op("Div", {Pattern::any(), std::move(root)}, "inverse");
    return {Pattern::op("Mul", {Pattern::any("x"), std::move(inverse)}).any_order(), apply};
}

/// A constant along the last dimension of `value`.
bool is_vector(const Graph& graph, const std::string& name, const Shape& dims) {
    const Tensor* tensor = graph.constant(name);
    return tensor != nullptr && !dims.empty() && !tensor->shape().empty() && tensor->shape().back() == dims.back() &&
           static_cast<std::int64_t>(tensor->count()) == dims.back() && tensor->shape().size() <= dims.size();
}

//  LayerNormalization(x, ones) -> Mul gamma     ==>   LayerNormalization(x, gamma), RMSNormalization alike
//  LayerNormalization(x, gamma) -> Add beta     ==>   LayerNormalization(x, gamma, beta)
Rule norm_factor(const char* type) {
    const auto apply = [](const Site& site) {
        const Node& norm = site.match.node("norm");
        const std::string& factor = site.match.value("factor");
        const Shape dims = dims_of(site.graph, norm.output(0));
        const Tensor* gamma = site.graph.constant(norm.input(1));
        if (!norm.input(2).empty() || norm.outputs.size() != 1 || gamma == nullptr ||
            !is_vector(site.graph, factor, dims) || dims_of(site.graph, site.root.output(0)) != dims)
            return false;
        Node whole = norm;
        if (site.root.is("Mul")) {
            if (uniform_value(*gamma) != 1.0F) return false;
            whole.inputs[1] = factor;
        } else if (norm.is("RMSNormalization")) {
            return false;
        } else {
            whole.inputs.resize(2);
            whole.inputs.push_back(factor);
        }
        become(site.root, std::move(whole), site.root);
        return true;
    };
    return {Pattern::op(type, {Pattern::op("LayerNormalization|RMSNormalization", {}, "norm").used_once(),
                               Pattern::constant("factor")})
                .any_order(),
            apply};
}

// ---- GroupNorm ----

/// A vector by channel beside images of rank 4; a scale of each group is repeated. Nothing if it is no constant of
/// such a length.
std::optional<std::string> by_channel(Graph& graph, const std::string& name, std::int64_t channels,
                                      std::int64_t groups) {
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr || tensor->type() != DataType::float32) return std::nullopt;
    const auto count = static_cast<std::int64_t>(tensor->count());
    if (count != channels && count != groups) return std::nullopt;
    const std::vector<float> given = tensor->to_floats();
    std::vector<float> all;
    for (std::int64_t c = 0; c < channels; ++c)
        all.push_back(given[static_cast<std::size_t>(count == channels ? c : c / (channels / groups))]);
    return add_constant(graph, "by_channel", Tensor::of_floats("", {channels, 1, 1}, all));
}

/// Root, of the sizes of x, becomes x * factor + shift of GroupFactors(x).
bool by_group_factors(const Site& site, const std::string& x, std::int64_t groups, float epsilon,
                      const std::string& gamma, const std::string& beta) {
    Graph& graph = site.graph;
    const Shape dims = dims_of(graph, x);
    if (dims.size() != 4 || groups < 1 || dims[1] % groups != 0 || dims_of(graph, site.root.output(0)) != dims ||
        type_of(graph, x) != DataType::float32)
        return false;
    std::optional<std::string> scale, bias;
    if (!gamma.empty()) {
        scale = by_channel(graph, gamma, dims[1], groups);
        bias = by_channel(graph, beta, dims[1], groups);
        if (!scale || !bias) return false;
    }
    Node factors = make_node("GroupFactors", {x});
    factors.set("groups", groups);
    factors.set("epsilon", epsilon);
    const std::string shift = graph.unique_name(site.root.output(0) + "/shift");
    const std::string factor = add_before(site, std::move(factors), DataType::float32, {dims[0], dims[1], 1, 1});
    for (const auto& node : graph.nodes) {
        if (!node->is("GroupFactors") || node->output(0) != factor) continue;
        node->outputs.push_back(shift);
        ValueInfo info = graph.value_infos.at(factor);
        info.name = shift;
        graph.value_infos.insert_or_assign(shift, std::move(info));
    }
    std::string value = add_before(site, make_node("Mul", {x, factor}), DataType::float32, dims);
    if (scale) {
        value = add_before(site, make_node("Add", {value, shift}), DataType::float32, dims);
        value = add_before(site, make_node("Mul", {value, *scale}), DataType::float32, dims);
    }
    become(site.root, make_node("Add", {value, scale ? *bias : shift}), site.root);
    return true;
}

//  x -> Reshape [N, G, L] -> InstanceNormalization(ones, zeros) -> Reshape as x   ==>   x * factor + shift
//
// So PyTorch writes GroupNorm; its own factors stand behind.
bool group_norm_of_reshapes(const Site& site) {
    const Node& norm = site.match.node("norm");
    const Tensor* scale = site.graph.constant(norm.input(1));
    const Tensor* bias = site.graph.constant(norm.input(2));
    const std::string x = site.match.value("x");
    const Shape dims = dims_of(site.graph, x), between = dims_of(site.graph, norm.input(0));
    if (scale == nullptr || bias == nullptr || uniform_value(*scale) != 1.0F || uniform_value(*bias) != 0.0F ||
        dims.size() != 4 || between.size() != 3 || between[0] != dims[0])
        return false;
    return by_group_factors(site, x, between[1], norm.float_or("epsilon", 1e-5F), "", "");
}

//  InstanceNormalization, GroupNormalization of images   ==>   (x * factor + shift) * scale + bias
bool norm_of_images(const Site& site) {
    const Node norm = site.root;
    const Shape dims = dims_of(site.graph, norm.input(0));
    if (dims.size() != 4 || norm.outputs.size() != 1) return false;
    const std::int64_t groups = norm.is("InstanceNormalization") ? dims[1] : norm.int_or("num_groups", 0);
    return by_group_factors(site, norm.input(0), groups, norm.float_or("epsilon", 1e-5F), norm.input(1), norm.input(2));
}

// ---- GELU ----

/// A polynomial in x of degree 3 at most, lowest power first.
using Polynomial = std::array<double, 4>;

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
    Polynomial result{};
    for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
            if (i + j < 4) result[i + j] += a[i] * b[j];
            if (i + j >= 4 && a[i] * b[j] != 0) return std::nullopt;
        }
    }
    return result;
}

/// `value` as a polynomial in `x`; nothing if it is none.
std::optional<Polynomial> polynomial(const Site& site, const std::string& value, const std::string& x, int depth = 8) {
    if (value == x) return Polynomial{0, 1, 0, 0};
    if (const auto number = scalar(site.graph, value)) return Polynomial{static_cast<double>(*number), 0, 0, 0};
    const Node* node = site.uses.producer(value);
    if (node == nullptr || depth == 0 || node->inputs.size() != 2) return std::nullopt;
    const auto a = polynomial(site, node->input(0), x, depth - 1);
    if (!a) return std::nullopt;
    const auto number = scalar(site.graph, node->input(1));
    if (node->is("Pow")) {
        if (!number || (*number != 2 && *number != 3)) return std::nullopt;
        const auto square = product(*a, *a);
        return *number == 2 || !square ? square : product(*square, *a);
    }
    if (node->is("Div")) {
        if (!number || *number == 0) return std::nullopt;
        return product(*a, {1 / static_cast<double>(*number), 0, 0, 0});
    }
    const auto b = polynomial(site, node->input(1), x, depth - 1);
    if (!b) return std::nullopt;
    if (node->is("Mul")) return product(*a, *b);
    if (!node->is("Add") && !node->is("Sub")) return std::nullopt;
    Polynomial sum{};
    for (std::size_t i = 0; i < 4; ++i)
        sum[i] = (*a)[i] + (node->is("Add") ? (*b)[i] : -(*b)[i]);
    return sum;
}

/// The factors of a product: constants multiplied, all others by name.
struct Factors {
    double constant = 1;
    std::vector<std::string> values;
};
void collect(const Site& site, const std::string& value, const std::string& x, int depth, Factors& found) {
    if (const auto number = value == x ? std::nullopt : scalar(site.graph, value)) {
        found.constant *= static_cast<double>(*number);
        return;
    }
    const Node* node = value == x || depth == 0 ? nullptr : site.uses.producer(value);
    const auto divisor = node != nullptr && node->is("Div") ? scalar(site.graph, node->input(1)) : std::nullopt;
    if (divisor && *divisor != 0) {
        found.constant /= static_cast<double>(*divisor);
        collect(site, node->input(0), x, depth - 1, found);
    } else if (node != nullptr && node->is("Mul")) {
        collect(site, node->input(0), x, depth - 1, found);
        collect(site, node->input(1), x, depth - 1, found);
    } else {
        found.values.push_back(value);
    }
}

/// "none" or "tanh" if the root is x * 0.5 * (1 + f(u)) with f and u of GELU's two forms, else "".
/// Hendrycks and Gimpel, Gaussian error linear units: u = x / sqrt(2), or sqrt(2 / pi) * (x + 0.044715 x^3).
std::string gelu_form(const Site& site, const std::string& x) {
    Factors factors;
    collect(site, site.root.output(0), x, 4, factors);
    if (factors.values.size() != 2 || !near(factors.constant, 0.5)) return "";
    const std::size_t own = factors.values[0] == x ? 0 : 1;
    if (factors.values[own] != x) return "";
    const Node* plus = site.uses.producer(factors.values[1 - own]);
    if (plus == nullptr || !plus->is("Add")) return "";
    const std::size_t one = near(scalar(site.graph, plus->input(0)), 1) ? 0 : 1;
    const Node* function = site.uses.producer(plus->input(1 - one));
    if (!near(scalar(site.graph, plus->input(one)), 1) || function == nullptr) return "";
    const auto u = polynomial(site, function->input(0), x);
    if (!u || (*u)[0] != 0 || (*u)[2] != 0) return "";
    if (function->is("Erf")) return near((*u)[1], std::sqrt(0.5)) && (*u)[3] == 0 ? "none" : "";
    constexpr double slope = 0.7978845608028654; // sqrt(2 / pi)
    return function->is("Tanh") && near((*u)[1], slope) && near((*u)[3], slope * 0.044715) ? "tanh" : "";
}

//  x * 0.5 * (1 + Erf(...)), x * 0.5 * (1 + Tanh(...)), in any order and any writing of the cube   ==>   Gelu
bool become_gelu(const Site& site) {
    // x is an input of the product, or of a product that goes into it.
    std::set<std::string> candidates(site.root.inputs.begin(), site.root.inputs.end());
    for (int level = 0; level < 2; ++level) {
        for (const std::string& value : std::set<std::string>(candidates)) {
            const Node* node = site.uses.producer(value);
            if (node != nullptr && (node->is("Mul") || node->is("Div")))
                candidates.insert(node->inputs.begin(), node->inputs.end());
        }
    }
    for (const std::string& x : candidates) {
        if (site.graph.constant(x) != nullptr) continue;
        const std::string form = gelu_form(site, x);
        if (form.empty() || dims_of(site.graph, x) != dims_of(site.graph, site.root.output(0))) continue;
        Node gelu = make_node("Gelu", {x});
        gelu.set("approximate", form);
        become(site.root, std::move(gelu), site.root);
        return true;
    }
    return false;
}

//  product -> Reshape -> Gelu   ==>   product -> Gelu -> Reshape, where the product's kernel computes it
bool gelu_before_reshape(const Site& site) {
    const Node reshape = site.match.node("reshape");
    const DataType type = type_of(site.graph, site.root.output(0));
    const Shape dims = dims_of(site.graph, reshape.input(0));
    if (dims.empty() || type == DataType::undefined) return false;
    Node gelu = site.root;
    gelu.inputs = {reshape.input(0)};
    std::vector<std::string> inputs = reshape.inputs;
    inputs[0] = add_before(site, std::move(gelu), type, dims);
    Node after = reshape;
    after.inputs = std::move(inputs);
    become(site.root, std::move(after), reshape);
    return true;
}

// ---- Attention ----

/// Whether a Softmax alone reads what the root gives.
bool goes_into_softmax(const Site& site) {
    const auto& readers = site.uses.consumers(site.root.output(0));
    return readers.size() == 1 && site.uses.use_count(site.root.output(0)) == 1 && readers.front()->is("Softmax");
}

//  Where(keep, scores, -inf) -> Softmax   ==>   Add(scores, Where(keep, 0, -inf)) -> Softmax
// So too with the scores in third place. What is masked absorbs the score it is added to.
bool mask_by_add(const Site& site) {
    Node& root = site.root;
    if (!goes_into_softmax(site)) return false;
    const auto second = scalar(site.graph, root.input(1));
    const auto third = scalar(site.graph, root.input(2));
    if (second.has_value() == third.has_value()) return false;
    const float hidden = second ? *second : *third;
    const std::string scores = root.input(second ? 2 : 1);
    const Shape dims = dims_of(site.graph, root.output(0));
    const Shape keep = dims_of(site.graph, root.input(0));
    const DataType type = type_of(site.graph, root.output(0));
    if (!(hidden <= absorbing) || type != DataType::float32 || dims.size() != 4 || keep.size() != 4 || keep[1] != 1 ||
        dims_of(site.graph, scores) != dims)
        return false;
    const std::string zero = add_scalar(site.graph, "kept", type, 0);
    Node where = make_node("Where", {root.input(0), second ? root.input(1) : zero, second ? zero : root.input(2)});
    const std::string mask = add_before(site, std::move(where), type, keep);
    become(root, make_node("Add", {scores, mask}), root);
    return true;
}

//  Add(scores, constant [S, S]) -> Softmax   ==>   the constant as [1, 1, S, S], which is how a mask is taken
bool mask_of_rank_4(const Site& site) {
    Node& root = site.root;
    if (!goes_into_softmax(site)) return false;
    const std::size_t at = site.graph.constant(root.input(0)) != nullptr ? 0 : 1;
    const Tensor* mask = site.graph.constant(root.input(at));
    if (mask == nullptr || mask->shape().size() >= 4 || dims_of(site.graph, root.input(1 - at)).size() != 4)
        return false;
    Shape whole = mask->shape();
    whole.insert(whole.begin(), 4 - whole.size(), 1);
    root.inputs[at] = add_constant(site.graph, "mask", mask->reshaped(whole));
    return true;
}

//  [B, H, S, D] -> Reshape [B*H, S, D] -> Transpose {0, 2, 1} -> Reshape [B, H, D, S]   ==>   Transpose {0, 1, 3, 2}
bool transpose_of_heads(const Site& site) {
    const std::string& x = site.match.value("x");
    const Shape from = dims_of(site.graph, x);
    const Shape to = dims_of(site.graph, site.root.output(0));
    const Shape between = dims_of(site.graph, site.match.node("turn").input(0));
    const auto order = site.match.node("turn").ints_or("perm", {});
    if (from.size() != 4 || between.size() != 3 || order != std::vector<std::int64_t>{0, 2, 1}) return false;
    if (between != Shape{from[0] * from[1], from[2], from[3]} || to != Shape{from[0], from[1], from[3], from[2]})
        return false;
    Node turn = make_node("Transpose", {x});
    turn.set("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    become(site.root, std::move(turn), site.root);
    return true;
}

//  keys [B, H, S, D] -> Mul scalar -> Transpose {0, 1, 3, 2}   ==>   Transpose {0, 1, 3, 2} -> Mul scalar
bool transpose_before_scale(const Site& site) {
    const Node scale = site.match.node("scale");
    const std::size_t at = scale.is("Mul") && scalar(site.graph, scale.input(0)) ? 1 : 0;
    const Shape dims = dims_of(site.graph, scale.input(at));
    if (!scalar(site.graph, scale.input(1 - at)) || dims.size() != 4 || dims_of(site.graph, scale.output(0)) != dims ||
        site.root.ints_or("perm", {}) != std::vector<std::int64_t>{0, 1, 3, 2})
        return false;
    Node turn = make_node("Transpose", {scale.input(at)});
    turn.set("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    const DataType type = type_of(site.graph, scale.output(0));
    std::vector<std::string> inputs = scale.inputs;
    inputs[at] = add_before(site, std::move(turn), type, {dims[0], dims[1], dims[3], dims[2]});
    become(site.root, make_node(scale.op_type, std::move(inputs)), scale);
    return true;
}

/// 0 where key j <= query i, else -inf: [1, 1, queries, keys].
Tensor causal_mask(std::int64_t queries, std::int64_t keys) {
    std::vector<float> values(static_cast<std::size_t>(queries * keys), 0.0F);
    for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = i + 1; j < keys; ++j)
            values[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    }
    return Tensor::of_floats("", {1, 1, queries, keys}, values);
}

/// The mask of an Attention node as numbers to add to the scores, "" if it has none; nothing for one that is not taken.
std::optional<std::string> additive_mask(const Site& site, const Shape& scores) {
    const std::string& given = site.root.input(3);
    const bool causal = site.root.int_or("is_causal", 0) != 0;
    std::string mask = given;
    Shape dims = dims_of(site.graph, given);
    if (!given.empty()) {
        // Numpy's broadcasting, the last sizes as they are; a shorter mask than there are keys is not taken.
        if (dims.size() > 4 || dims.size() < 2 || dims.back() != scores[3]) return std::nullopt;
        const DataType type = type_of(site.graph, given);
        if (type == DataType::boolean) {
            const std::string zero = add_scalar(site.graph, "kept", DataType::float32, 0);
            const std::string hidden =
                add_scalar(site.graph, "hidden", DataType::float32, -std::numeric_limits<float>::infinity());
            mask = add_before(site, make_node("Where", {given, zero, hidden}), DataType::float32, dims);
        } else if (type != DataType::float32) {
            return std::nullopt;
        }
    }
    if (!causal) return mask;
    const std::string order = add_constant(site.graph, "causal", causal_mask(scores[2], scores[3]));
    if (mask.empty()) return order;
    Shape both{1, 1, scores[2], scores[3]};
    for (std::size_t i = 0; i + 2 < dims.size(); ++i)
        both[4 - dims.size() + i] = dims[i];
    return add_before(site, make_node("Add", {mask, order}), DataType::float32, both);
}

//  Attention(q, k, v [, mask])   ==>   MatMul(Softmax(MatMul(q, k transposed) * scale + mask), v)
// With a boolean mask the Softmax's NaN become 0 before the last product.
bool write_out_attention(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    if (!attention_refusal(root).empty()) return false;
    const DataType type = type_of(graph, root.input(0));
    const Shape q = dims_of(graph, root.input(0));
    const Shape k = dims_of(graph, root.input(1));
    const Shape v = dims_of(graph, root.input(2));
    if (type != DataType::float32 || q.size() != 4 || k.size() != 4 || v.size() != 4 || q[1] != k[1] || q[1] != v[1])
        return false;
    const Shape scores{q[0], q[1], q[2], k[2]};
    const auto mask = additive_mask(site, scores);
    if (!mask) return false;
    Node turn = make_node("Transpose", {root.input(1)});
    turn.set("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    const std::string turned = add_before(site, std::move(turn), type, {k[0], k[1], k[3], k[2]});
    std::string value = add_before(site, make_node("MatMul", {root.input(0), turned}), type, scores);
    const float scale = root.float_or("scale", 1 / std::sqrt(static_cast<float>(q[3])));
    value = add_before(site, make_node("Mul", {value, add_scalar(graph, "scale", type, scale)}), type, scores);
    if (!mask->empty()) value = add_before(site, make_node("Add", {value, *mask}), type, scores);
    Node softmax = make_node("Softmax", {value});
    softmax.set("axis", std::int64_t{-1});
    value = add_before(site, std::move(softmax), type, scores);
    if (type_of(graph, root.input(3)) == DataType::boolean) {
        // A row in which nothing is left gives 0, as the operator is defined.
        const std::string empty = add_before(site, make_node("IsNaN", {value}), DataType::boolean, scores);
        const std::string zero = add_scalar(graph, "nothing", type, 0);
        value = add_before(site, make_node("Where", {empty, zero, value}), type, scores);
    }
    Node last = make_node("MatMul", {value, root.input(2)});
    root.outputs.resize(1);
    become(root, std::move(last), root);
    return true;
}

//  CastLike(x, other)   ==>   Cast(x), or nothing where the types are the same
bool cast_to_known_type(const Site& site) {
    const DataType to = type_of(site.graph, site.root.input(1));
    if (to == DataType::undefined || type_of(site.graph, site.root.input(0)) == DataType::undefined) return false;
    const bool same = type_of(site.graph, site.root.input(0)) == to;
    Node node = make_node(same ? "Identity" : "Cast", {site.root.input(0)});
    if (!same) node.set("to", static_cast<std::int64_t>(to));
    become(site.root, std::move(node), site.root);
    return true;
}

} // namespace

std::string attention_refusal(const Node& node) {
    if (node.int_or("q_num_heads", 0) != 0 || node.int_or("kv_num_heads", 0) != 0) return "heads beside each other";
    if (!node.input(4).empty() || !node.input(5).empty()) return "past keys and values as its own inputs";
    if (!node.input(6).empty()) return "lengths of its keys as an input";
    if (node.float_or("softcap", 0) != 0) return "softcap";
    for (const Attribute& attribute : node.attributes) {
        static const std::set<std::string_view> known{"is_causal",        "scale",        "softcap",
                                                      "q_num_heads",      "kv_num_heads", "qk_matmul_output_mode",
                                                      "softmax_precision"};
        if (!known.contains(attribute.name)) return "the attribute " + attribute.name;
    }
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
        if (!node.outputs[i].empty()) return "more than one output";
    }
    return "";
}

Result<void> unify_spellings(Model& model) {
    write_out_einsum(model.graph, model.opset());
    PassContext context;
    context.opset = model.opset();
    const std::array rules{
        whitening(),
        by_root_mean_square("Div"),
        by_root_mean_square("Reciprocal"),
        by_root_mean_square("1 / x"),
        Rule{Pattern::op("Reshape",
                         {Pattern::op("InstanceNormalization", {Pattern::op("Reshape", {Pattern::any("x")})}, "norm")}),
             group_norm_of_reshapes},
        Rule{Pattern::op("InstanceNormalization|GroupNormalization"), norm_of_images},
        norm_factor("Mul"),
        norm_factor("Add"),
        Rule{Pattern::op("Mul|Div"), become_gelu},
        Rule{Pattern::op("Gelu", {Pattern::op("Reshape", {Pattern::op("Gemm|MatMul|Add")}, "reshape").used_once()}),
             gelu_before_reshape},
        Rule{Pattern::op("Where"), mask_by_add},
        Rule{Pattern::op("Add"), mask_of_rank_4},
        Rule{Pattern::op("Reshape", {Pattern::op("Transpose", {Pattern::op("Reshape", {Pattern::any("x")})}, "turn")}),
             transpose_of_heads},
        Rule{Pattern::op("Transpose", {Pattern::op("Mul|Div", {}, "scale").used_once()}), transpose_before_scale},
        Rule{Pattern::op("CastLike"), cast_to_known_type},
        Rule{Pattern::op("Attention"), write_out_attention}};
    LATHE_TRY(const bool changed, rewrite(model.graph, context, rules));
    if (!changed) return {};
    // What was written out may stand behind another Transpose.
    LATHE_CHECK(apply_pass(*find_pass("merge-transposes"), model.graph, context));
    remove_dead(model.graph);
    return {};
}

} // namespace lathe::cuda
