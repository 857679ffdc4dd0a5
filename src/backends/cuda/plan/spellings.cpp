#include "backends/cuda/plan/spellings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "backends/cuda/plan/einsum.hpp"
#include "backends/cuda/plan/lines.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "backends/cuda/plan/spelling_tools.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::cuda {

Shape dims_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->shape().value_or(Shape{}) : Shape{};
}

std::optional<float> scalar_of(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    if (tensor == nullptr || tensor->count() != 1) return std::nullopt;
    return uniform_value(*tensor);
}

namespace {

bool near(std::optional<double> value, double expected) {
    return value && std::abs(*value - expected) <= 1e-3 * std::abs(expected);
}

// ---- LayerNorm ----

/// ReduceMean over the last dimension alone, which it keeps.
bool is_mean(const Graph& graph, const Node& node) {
    const auto rank = static_cast<std::int64_t>(dims_of(graph, node.input(0)).size());
    if (!node.is("ReduceMean") || node.int_or("keepdims", 1) != 1 || rank == 0) return false;
    const auto axes = constant_integers(graph, node, "axes", 1);
    return axes && axes->size() == 1 && (axes->front() == -1 || axes->front() == rank - 1);
}

/// x * x or x ^ 2.
bool is_square(const Graph& graph, const Node& node) {
    return node.is("Mul") ? node.input(0) == node.input(1) : near(scalar_of(graph, node.input(1)), 2);
}

/// Root becomes a normalisation of the match's x, in which `squares` is the mean of "square" and "sum" adds epsilon.
bool become_norm(const Site& site, const char* type, const Node& squares) {
    Graph& graph = site.graph;
    const std::string& x = site.match.value("x");
    const Node& sum = site.match.node("sum");
    const auto epsilon = scalar_of(graph, sum.input(sum.input(0) == squares.output(0) ? 1 : 0));
    const Shape dims = dims_of(graph, x);
    if (!is_square(graph, site.match.node("square")) || !epsilon || dims.empty() || !is_mean(graph, squares) ||
        type_of(graph, x) != DataType::float32)
        return false;
    const std::vector<float> ones(static_cast<std::size_t>(dims.back()), 1.0F);
    Node norm = make_node(type, {x, add_constant(graph, "ones", Tensor::of_floats("", {dims.back()}, ones))});
    norm.set("axis", std::int64_t{-1});
    norm.set("epsilon", *epsilon);
    become(site.root, std::move(norm), site.root);
    return true;
}

//  x -> ReduceMean \        d*d -> ReduceMean -> Add eps -> Sqrt \                 x, ones
//  x ------------- Sub = d ------------------------------------- Div     ==>   LayerNormalization
Rule whitening() {
    const auto centred = [] {
        return Pattern::op("Sub", {Pattern::any("x"), Pattern::op("ReduceMean", {Pattern::any("x")}, "mean")}, "d");
    };
    const auto apply = [](const Site& site) {
        return is_mean(site.graph, site.match.node("mean")) &&
               become_norm(site, "LayerNormalization", site.match.node("variance"));
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
        if (site.root.is("Mul")) {
            const Node& inverse = site.match.node("inverse");
            if (inverse.is("Div") && (!near(scalar_of(site.graph, inverse.input(0)), 1) ||
                                      inverse.input(1) != site.match.node("root").output(0)))
                return false;
        }
        return become_norm(site, "RMSNormalization", site.match.node("mean"));
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

//  Reduce over axes that do not lie together   ==>   Reduce over the last that do -> Reduce over the others -> Reshape
//
// As adaptive pooling is decomposed. Of sums, means of equal parts, extremes, products and lengths it is the same.
bool reduce_in_steps(const Site& site) {
    Graph& graph = site.graph;
    const Node& root = site.root;
    const std::string& x = root.input(0);
    const Shape dims = dims_of(graph, x), out = dims_of(graph, root.output(0));
    auto axes = constant_integers(graph, root, "axes", 1);
    if (!axes || axes->size() < 2 || element_count(dims) == 0 || type_of(graph, x) == DataType::undefined) return false;
    for (std::int64_t& axis : *axes)
        if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
    std::sort(axes->begin(), axes->end());
    std::size_t first = axes->size() - 1; // of the last that lie together
    while (first > 0 && (*axes)[first - 1] + 1 == (*axes)[first])
        --first;
    if (first == 0) return false;
    const auto step = [&](const std::string& value, std::vector<std::int64_t> over, Shape& sizes) {
        for (const std::int64_t axis : over)
            sizes[static_cast<std::size_t>(axis)] = 1;
        Node reduce = make_node(root.op_type, {value});
        if (root.input(1).empty())
            reduce.set("axes", over);
        else
            reduce.inputs.push_back(
                add_constant(graph, "axes", Tensor::of_int64s("", {static_cast<std::int64_t>(over.size())}, over)));
        reduce.set("keepdims", std::int64_t{1});
        return add_before(site, std::move(reduce), type_of(graph, x), sizes);
    };
    Shape sizes = dims;
    const auto at = axes->begin() + static_cast<std::ptrdiff_t>(first);
    const std::string part = step(x, {at, axes->end()}, sizes);
    const std::string all = step(part, {axes->begin(), at}, sizes);
    become(site.root, reshape_node(graph, all, out), site.root);
    return true;
}

//  ReduceSum of integers            ==>   CumSum -> its last number -> Reshape
//  ReduceMax, ReduceMin of integers ==>   ArgMax, ArgMin -> GatherElements -> Reshape
//
// Lengths and counts by a mask. Kernels that reduce do so in floating point.
bool reduce_integers(const Site& site) {
    Graph& graph = site.graph;
    const Node& root = site.root;
    const std::string& x = root.input(0);
    const Shape dims = dims_of(graph, x), out = dims_of(graph, root.output(0));
    const DataType type = type_of(graph, x);
    const bool integers = type == DataType::int32 || type == DataType::int64 || type == DataType::uint32 ||
                          type == DataType::uint64 || type == DataType::int8 || type == DataType::uint8;
    if (!integers || dims.empty() || element_count(dims) == 0) return false;
    auto axes = constant_integers(graph, root, "axes", 1);
    if (!axes && (!root.input(1).empty() || root.int_or("noop_with_empty_axes", 0) != 0)) return false;
    std::size_t first = 0, last = dims.size();
    if (axes && !axes->empty()) {
        for (std::int64_t& axis : *axes)
            if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
        std::sort(axes->begin(), axes->end());
        first = static_cast<std::size_t>(axes->front());
        last = static_cast<std::size_t>(axes->back()) + 1;
        if (axes->front() < 0 || last > dims.size()) return false;
        if (last - first != axes->size()) return false; // reduce_in_steps first
    }
    const auto product = [&](std::size_t from, std::size_t to) {
        return element_count(
            Shape(dims.begin() + static_cast<std::ptrdiff_t>(from), dims.begin() + static_cast<std::ptrdiff_t>(to)));
    };
    const Shape flat{product(0, first), product(first, last), product(last, dims.size())}, one{flat[0], 1, flat[2]};
    const std::string lines = reshaped(site, x, flat);
    const auto number = [&](std::int64_t value) {
        return add_constant(graph, "number", Tensor::of_int64s("", {1}, std::array{value}));
    };
    std::string result;
    if (root.is("ReduceSum")) {
        Node sums = make_node("CumSum", {lines, number(1)});
        const std::string all = add_before(site, std::move(sums), type, flat);
        Node end = make_node("Slice", {all, number(flat[1] - 1), number(flat[1]), number(1)});
        result = add_before(site, std::move(end), type, one);
    } else {
        Node place = make_node(root.is("ReduceMax") ? "ArgMax" : "ArgMin", {lines});
        place.set("axis", std::int64_t{1});
        place.set("keepdims", std::int64_t{1});
        const std::string at = add_before(site, std::move(place), DataType::int64, one);
        Node gather = make_node("GatherElements", {lines, at});
        gather.set("axis", std::int64_t{1});
        result = add_before(site, std::move(gather), type, one);
    }
    become(site.root, reshape_node(graph, result, out), site.root);
    return true;
}

//  x -> ReduceL2 -> Clip at eps [-> Expand] \              x, ones / sqrt(D)
//  x ---------------------------------------- Div     ==>  RMSNormalization, epsilon eps^2 / D
//
// Rows of length 1, as cosine attention has them (Liu et al., Swin Transformer V2, 2022). sqrt(n^2 + eps^2) is max(n,
// eps) but where n is about eps, which is small.
bool norm_of_length(const Site& site) {
    Graph& graph = site.graph;
    const std::string& x = site.root.input(0);
    const Node* bounded = site.uses.producer(site.root.input(1));
    if (bounded != nullptr && bounded->is("Expand")) bounded = site.uses.producer(bounded->input(0));
    if (bounded == nullptr || (!bounded->is("Clip") && !bounded->is("Max")) || bounded->inputs.size() < 2) return false;
    const bool above = bounded->is("Clip") && !bounded->input(2).empty();
    const Node* length = site.uses.producer(bounded->input(0));
    const auto least = scalar_of(graph, bounded->input(1));
    const Shape dims = dims_of(graph, x);
    if (above || length == nullptr || !length->is("ReduceL2") || length->input(0) != x || !least || *least <= 0 ||
        *least > 1e-5F || dims.empty() || dims_of(graph, site.root.output(0)) != dims ||
        type_of(graph, x) != DataType::float32 || length->int_or("keepdims", 1) != 1)
        return false;
    const auto axes = constant_integers(graph, *length, "axes", 1);
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (!axes || axes->size() != 1 || (axes->front() != -1 && axes->front() != rank - 1)) return false;
    const auto columns = static_cast<float>(dims.back());
    const std::vector<float> factors(static_cast<std::size_t>(dims.back()), 1 / std::sqrt(columns));
    Node norm = make_node("RMSNormalization",
                          {x, add_constant(graph, "length", Tensor::of_floats("", {dims.back()}, factors))});
    norm.set("axis", std::int64_t{-1});
    norm.set("epsilon", *least * *least / columns);
    become(site.root, std::move(norm), site.root);
    return true;
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

//  x -> Transpose -> LayerNormalization     ==>   x -> LayerNormalization -> Transpose, RMSNormalization alike
//
// Rows are rows wherever they lie: behind it the heads whose queries and keys are normalised (Gemma 3, vision
// transformers) are read where they lie in their product.
bool norm_before_transpose(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Node* transpose = site.uses.producer(root.input(0));
    const Shape dims = dims_of(graph, root.input(0));
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t axis = root.int_or("axis", -1);
    if (transpose == nullptr || !transpose->is("Transpose") || site.uses.use_count(root.input(0)) != 1 || rank < 3 ||
        root.outputs.size() != 1 || (axis != -1 && axis != rank - 1))
        return false;
    const auto order = transpose->ints_or("perm", {});
    if (order.size() != dims.size() || order.back() != rank - 1) return false;
    for (std::size_t i = 1; i < root.inputs.size(); ++i)
        if (!root.input(i).empty() && !is_vector(graph, root.input(i), dims)) return false;
    // A factor or shift that follows goes into it first (norm_factor).
    for (const Node* reader : site.uses.consumers(root.output(0)))
        if ((reader->is("Mul") || reader->is("Add")) &&
            (is_vector(graph, reader->input(0), dims) || is_vector(graph, reader->input(1), dims)))
            return false;
    Node norm = root;
    norm.inputs[0] = transpose->input(0);
    const std::string made =
        add_before(site, std::move(norm), type_of(graph, root.output(0)), dims_of(graph, transpose->input(0)));
    Node moved = make_node("Transpose", {made});
    moved.set("perm", order);
    become(root, std::move(moved), root);
    return true;
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
    if (const auto number = scalar_of(site.graph, value)) return Polynomial{static_cast<double>(*number), 0, 0, 0};
    const Node* node = site.uses.producer(value);
    if (node == nullptr || depth == 0 || node->inputs.size() != 2) return std::nullopt;
    const auto a = polynomial(site, node->input(0), x, depth - 1);
    if (!a) return std::nullopt;
    const auto number = scalar_of(site.graph, node->input(1));
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
    if (const auto number = value == x ? std::nullopt : scalar_of(site.graph, value)) {
        found.constant *= static_cast<double>(*number);
        return;
    }
    const Node* node = value == x || depth == 0 ? nullptr : site.uses.producer(value);
    const auto divisor = node != nullptr && node->is("Div") ? scalar_of(site.graph, node->input(1)) : std::nullopt;
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
    const std::size_t one = near(scalar_of(site.graph, plus->input(0)), 1) ? 0 : 1;
    const Node* function = site.uses.producer(plus->input(1 - one));
    if (!near(scalar_of(site.graph, plus->input(one)), 1) || function == nullptr) return "";
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

//  g -> Sigmoid, Mul; product; Mul     ==>     product; g -> Sigmoid, Mul, Mul
//
// SwiGLU's SiLU stands in front of the other product, where no program can take both.
bool gate_behind_product(const Site& site) {
    Node& root = site.root;
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        const Node* silu = site.uses.producer(root.input(at));
        const Node* product = site.uses.producer(root.input(1 - at));
        if (silu == nullptr || !silu->is("Mul") || site.uses.use_count(root.input(at)) != 1 || product == nullptr ||
            (!product->is("MatMul") && !product->is("Gemm") && !product->is("Add")))
            continue;
        const Node* right = site.uses.producer(silu->input(1));
        const std::size_t gate = right != nullptr && right->is("Sigmoid") ? 0 : 1;
        const std::string g = silu->input(gate), sigmoid = silu->input(1 - gate);
        const Node* function = site.uses.producer(sigmoid);
        const Shape dims = dims_of(site.graph, g);
        if (function == nullptr || !function->is("Sigmoid") || function->input(0) != g || dims.size() > 3 ||
            site.uses.use_count(sigmoid) != 1 || dims_of(site.graph, root.output(0)) != dims)
            continue;
        const auto& nodes = site.graph.nodes;
        const auto place = [&](const Node* node) {
            return std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.get() == node; });
        };
        if (place(product) < place(silu)) continue;
        const DataType type = type_of(site.graph, g);
        const std::string again = add_before(site, make_node("Sigmoid", {g}), type, dims);
        root.inputs[at] = add_before(site, make_node("Mul", {g, again}), type, dims);
        return true;
    }
    return false;
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

//  ConstantOfShape(constant)   ==>   Expand(value, constant)
// Too large to be stored (folding leaves it): a value that is read over and over.
bool expanded_value(const Site& site) {
    if (site.graph.constant(site.root.input(0)) == nullptr) return false;
    const Attribute* attribute = site.root.attribute("value");
    const auto* given = attribute == nullptr ? nullptr : std::get_if<Tensor>(&attribute->value);
    const float zero = 0;
    const Tensor value = given == nullptr ? Tensor::of_floats("", {1}, std::span(&zero, 1)) : *given;
    if (value.count() != 1) return false;
    Node node = make_node("Expand", {add_constant(site.graph, "value", value), site.root.input(0)});
    become(site.root, std::move(node), site.root);
    return true;
}

} // namespace

Result<void> unify_spellings(Model& model) {
    write_out_einsum(model.graph, model.opset());
    write_sizes(model.graph);
    LATHE_TRY(const std::size_t inputs, input_count(model));
    if (write_lines_as_images(model.graph, model.opset(), inputs)) {
        for (const char* pass : {"merge-reshapes", "remove-no-ops"})
            LATHE_CHECK(apply_pass(pass, model));
        remove_dead(model.graph);
    }
    PassContext context;
    context.opset = model.opset();
    std::vector<Rule> rules{
        whitening(),
        by_root_mean_square("Div"),
        by_root_mean_square("Reciprocal"),
        by_root_mean_square("1 / x"),
        norm_factor("Mul"),
        norm_factor("Add"),
        Rule{Pattern::op("LayerNormalization|RMSNormalization"), norm_before_transpose},
        Rule{Pattern::op("Div"), norm_of_length},
        Rule{Pattern::op("ReduceMean|ReduceSum|ReduceMax|ReduceMin|ReduceProd|ReduceL2"), reduce_in_steps},
        Rule{Pattern::op("ReduceSum|ReduceMax|ReduceMin"), reduce_integers},
        Rule{Pattern::op("Mul|Div"), become_gelu},
        Rule{Pattern::op("Gelu", {Pattern::op("Reshape", {Pattern::op("Gemm|MatMul|Add")}, "reshape").used_once()}),
             gelu_before_reshape},
        Rule{Pattern::op("Mul"), gate_behind_product},
        Rule{Pattern::op("CastLike"), cast_to_known_type},
        norm_spelling(model.opset()),
        Rule{Pattern::op("ConstantOfShape"), expanded_value}};
    std::set<std::string> weights;
    for (std::size_t i = inputs; i < model.graph.inputs.size(); ++i)
        weights.insert(model.graph.inputs[i].name);
    for (std::vector<Rule> more : {group_norm_spellings(), movement_spellings(weights), head_product_spellings(weights),
                                   attention_spellings(), rotary_spellings(), rank_spellings(), plane_spellings()})
        rules.insert(rules.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    LATHE_TRY(const bool changed, rewrite(model.graph, context, rules));
    if (!changed) {
        place_parts_early(model.graph);
        return {};
    }
    // Values that several rewrites share stand before the first that was rewritten, which need not be the first.
    LATHE_CHECK(model.graph.sort_topologically());
    // What was written out may stand behind another Transpose or Reshape.
    for (const char* pass : {"merge-transposes", "merge-reshapes", "remove-no-ops"})
        LATHE_CHECK(apply_pass(pass, model));
    remove_dead(model.graph);
    place_parts_early(model.graph);
    return {};
}

} // namespace lathe::cuda
