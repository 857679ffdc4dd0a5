// Layer normalisation in forms beyond the plan's.
#include <algorithm>
#include <array>

#include "backends/cuda/plan/spelling_tools.hpp"
#include "passes/evaluate_support.hpp"

namespace lathe::cuda {
namespace {

/// The means of lines, [rows, 1]. Axes were an attribute up to opset 17.
Node mean_of_lines(Graph& graph, const std::string& value, std::int64_t opset) {
    Node mean = make_node("ReduceMean", {value});
    if (opset < 18) {
        mean.set("axes", std::vector<std::int64_t>{1});
    } else {
        mean.inputs.push_back(add_constant(graph, "axes", Tensor::of_int64s("", {1}, std::array{std::int64_t{1}})));
    }
    return mean;
}

/// What a LayerNormalization tells beside its result, computed from x [rows, width]: the means, and one over the
/// deviations, of the shape `each`.
void compute_statistics(const Site& site, const std::string& x, std::int64_t rows, std::int64_t width,
                        const Shape& each, std::int64_t opset) {
    Node& root = site.root;
    const auto mean_of = [&](const std::string& value) {
        return add_before(site, mean_of_lines(site.graph, value, opset), DataType::float32, {rows, 1});
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
    const auto given = evaluation::normalised_axis(root.int_or("axis", -1), dims->size());
    if (!given) return false;
    const auto axis = static_cast<std::ptrdiff_t>(*given);
    const Shape last(dims->begin() + axis, dims->end());
    const std::int64_t width = element_count(last), rows = element_count(*dims) / width;
    const Tensor* scale = graph.constant(root.input(1));
    const Tensor* shift = graph.constant(root.input(2));
    const bool constant = scale != nullptr && (root.input(2).empty() || shift != nullptr);
    if (last.size() == 1 && constant && !tells) return false; // as it should be
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

Rule norm_spelling(std::int64_t opset) {
    return {Pattern::op("LayerNormalization"), [opset](const Site& site) { return norm_of_flat(site, opset); }};
}

} // namespace lathe::cuda
