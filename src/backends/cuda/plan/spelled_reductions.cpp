// Reductions and normalisations that the plan has in another form.
#include <algorithm>
#include <array>
#include <limits>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

std::string axes_input(Graph& graph, const std::vector<std::int64_t>& axes) {
    return add_constant(graph, "axes",
                        Tensor::of_int64s("", {static_cast<std::int64_t>(axes.size())}, std::span(axes)));
}

/// Keeps the axes. They were an attribute up to opset 12 (ReduceSum) or 17 (the others).
Node reduction(Graph& graph, const char* op, const std::string& value, const std::vector<std::int64_t>& axes,
               bool as_attribute) {
    Node node = make_node(op, {value});
    node.set("keepdims", std::int64_t{1});
    if (as_attribute) {
        node.set("axes", axes);
    } else {
        node.inputs.push_back(axes_input(graph, axes));
    }
    return node;
}

//  ReduceL1(x)         ==>   ReduceSum(Abs(x))
//  ReduceSumSquare(x)  ==>   ReduceSum(x x)
//  ReduceLogSum(x)     ==>   Log(ReduceSum(x))
bool sum_of_function(const Site& site, std::int64_t opset) {
    const Node& root = site.root;
    const std::string& x = root.input(0);
    const DataType type = type_of(site.graph, x);
    const Shape dims = dims_of(site.graph, x), out = dims_of(site.graph, root.output(0));
    if (!is_floating(type) || !known_sizes(site.graph, x)) return false;
    Node sum = root;
    sum.op_type = "ReduceSum";
    sum.name.clear();
    if (const auto axes = root.ints_or("axes", {}); opset >= 13 && !axes.empty()) {
        sum.erase_attribute("axes");
        sum.inputs.push_back(axes_input(site.graph, axes));
    }
    if (root.is("ReduceLogSum")) {
        const std::string all = add_before(site, std::move(sum), type, out);
        become(site.root, make_node("Log", {all}), root);
        return true;
    }
    Node each = root.is("ReduceL1") ? make_node("Abs", {x}) : make_node("Mul", {x, x});
    sum.inputs[0] = add_before(site, std::move(each), type, dims);
    become(site.root, std::move(sum), root);
    return true;
}

//  ReduceLogSumExp(x)  ==>   m = ReduceMax(x), kept finite;  m + Log(ReduceSum(Exp(x - m)))
bool log_of_exponentials(const Site& site, std::int64_t opset) {
    Graph& graph = site.graph;
    const Node& root = site.root;
    const std::string& x = root.input(0);
    const DataType type = type_of(graph, x);
    const Shape dims = dims_of(graph, x), out = dims_of(graph, root.output(0));
    auto axes = constant_integers(graph, root, "axes", 1);
    const bool all = root.input(1).empty() && root.attribute("axes") == nullptr;
    if (!is_floating(type) || !known_sizes(graph, x) || (!axes && !all) || (axes && axes->empty()) ||
        (all && root.int_or("noop_with_empty_axes", 0) != 0))
        return false;
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (all) {
        axes.emplace();
        for (std::int64_t axis = 0; axis < rank; ++axis)
            axes->push_back(axis);
    }
    Shape kept = dims;
    for (const std::int64_t axis : *axes) {
        if (axis < -rank || axis >= rank) return false;
        kept[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = 1;
    }
    const auto reduced = [&](const char* op, const std::string& value, std::int64_t since) {
        return add_before(site, reduction(graph, op, value, *axes, opset < since), type, kept);
    };
    const std::string largest = reduced("ReduceMax", x, 18);
    // Kept finite: infinity less infinity is no number.
    constexpr float most = std::numeric_limits<float>::max();
    const std::string above =
        add_before(site, make_node("Max", {largest, add_scalar(graph, "lowest", type, -most)}), type, kept);
    const std::string finite =
        add_before(site, make_node("Min", {above, add_scalar(graph, "most", type, most)}), type, kept);
    const std::string shifted = add_before(site, make_node("Sub", {x, finite}), type, dims);
    const std::string exponentials = add_before(site, make_node("Exp", {shifted}), type, dims);
    const std::string sum = reduced("ReduceSum", exponentials, 13);
    const std::string log = add_before(site, make_node("Log", {sum}), type, kept);
    Node result = make_node("Add", {finite, log});
    if (kept == out) {
        become(site.root, std::move(result), root);
    } else {
        const std::string whole = add_before(site, std::move(result), type, kept);
        become(site.root, reshape_node(graph, whole, out), root);
    }
    return true;
}

/// What a LayerNormalization tells beside its result, computed from x [rows, width]: the means, and one over the
/// deviations, of the shape `each`.
void compute_statistics(const Site& site, const std::string& x, std::int64_t rows, std::int64_t width,
                        const Shape& each, std::int64_t opset) {
    Node& root = site.root;
    const auto mean_of = [&](const std::string& value) {
        return add_before(site, reduction(site.graph, "ReduceMean", value, {1}, opset < 18), DataType::float32,
                          {rows, 1});
    };
    const auto tell = [&](std::size_t output, const std::string& value) {
        if (root.outputs.size() <= output || root.outputs[output].empty()) return;
        Node node = reshape_node(site.graph, value, each);
        node.outputs = {root.outputs[output]};
        insert_before(site, std::move(node), site.graph.info(root.outputs[output]));
    };
    const std::string mean = mean_of(x);
    const std::string from_mean = add_before(site, make_node("Sub", {x, mean}), DataType::float32, {rows, width});
    const std::string variance =
        mean_of(add_before(site, make_node("Mul", {from_mean, from_mean}), DataType::float32, {rows, width}));
    const std::string epsilon = add_scalar(site.graph, "epsilon", DataType::float32, root.float_or("epsilon", 1e-5F));
    const Shape one{rows, 1};
    const std::string above = add_before(site, make_node("Add", {variance, epsilon}), DataType::float32, one);
    const std::string deviation = add_before(site, make_node("Sqrt", {above}), DataType::float32, one);
    const std::string inverse = add_before(site, make_node("Reciprocal", {deviation}), DataType::float32, one);
    tell(1, mean);
    tell(2, inverse);
    root.outputs.resize(1);
}

//  LayerNormalization over several last axes, by factors that are computed, or with its statistics as results
//    ==>   Reshape ──▶ LayerNormalization over one ──▶ Reshape [──▶ Mul ──▶ Add]
bool norm_of_flat(const Site& site, std::int64_t opset) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const std::string& x = root.input(0);
    const auto dims = known_sizes(graph, x);
    const DataType type = type_of(graph, x);
    if (!dims || dims->empty() || !is_floating(type)) return false;
    const bool tells =
        std::any_of(root.outputs.begin() + 1, root.outputs.end(), [](const auto& name) { return !name.empty(); });
    if (tells && type != DataType::float32) return false;
    const auto rank = static_cast<std::int64_t>(dims->size());
    const std::int64_t given = root.int_or("axis", -1), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) return false;
    const Shape last(dims->begin() + axis, dims->end());
    const std::int64_t width = element_count(last), rows = element_count(*dims) / width;
    const Tensor* scale = graph.constant(root.input(1));
    const Tensor* shift = graph.constant(root.input(2));
    const bool constant = scale != nullptr && (root.input(2).empty() || shift != nullptr);
    if (axis == rank - 1 && constant && !tells) return false; // as it should be
    // Constants of all of those axes are flat already; others are applied to the result.
    const bool whole = constant && scale->shape() == last && (shift == nullptr || shift->shape() == last);
    Node norm = root;
    norm.name.clear();
    norm.outputs.resize(1);
    norm.set("axis", std::int64_t{-1});
    const std::string lines = reshaped(site, x, {rows, width});
    norm.inputs = {lines};
    if (tells) {
        Shape each = *dims;
        std::fill(each.begin() + axis, each.end(), 1);
        compute_statistics(site, lines, rows, width, each, opset);
    }
    const auto flat = [&](const Tensor& tensor) {
        return add_constant(graph, "flat", Tensor("", tensor.type(), {width}, tensor.bytes()));
    };
    if (whole) {
        norm.inputs.push_back(flat(*scale));
        if (shift != nullptr) norm.inputs.push_back(flat(*shift));
    } else {
        const DataType factors = type_of(graph, root.input(1));
        const auto ones = finite_tensor(factors == DataType::undefined ? type : factors, {width},
                                        std::vector<float>(static_cast<std::size_t>(width), 1.0F));
        if (!ones) return false;
        norm.inputs.push_back(add_constant(graph, "ones", *ones));
    }
    const std::string normal = add_before(site, std::move(norm), type, {rows, width});
    if (whole) {
        become(site.root, reshape_node(graph, normal, *dims), root);
        return true;
    }
    std::string value = reshaped(site, normal, *dims);
    Node scaled = make_node("Mul", {value, root.input(1)});
    if (root.input(2).empty()) {
        become(site.root, std::move(scaled), root);
        return true;
    }
    value = add_before(site, std::move(scaled), type, *dims);
    become(site.root, make_node("Add", {value, root.input(2)}), root);
    return true;
}

} // namespace

std::vector<Rule> reduction_spellings(std::int64_t opset) {
    return {
        Rule{Pattern::op("ReduceL1|ReduceSumSquare|ReduceLogSum"),
             [opset](const Site& site) { return sum_of_function(site, opset); }},
        Rule{Pattern::op("ReduceLogSumExp"), [opset](const Site& site) { return log_of_exponentials(site, opset); }},
        Rule{Pattern::op("LayerNormalization"), [opset](const Site& site) { return norm_of_flat(site, opset); }}};
}

} // namespace lathe::cuda
