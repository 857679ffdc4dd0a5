// GroupNorm and InstanceNorm, whichever way they are written.
#include <algorithm>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

/// A constant vector by channel or by group; null if it is none.
const Tensor* factors_of(const Graph& graph, const std::string& name, std::int64_t channels, std::int64_t groups) {
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr || tensor->type() != DataType::float32) return nullptr;
    const auto count = static_cast<std::int64_t>(tensor->count());
    return count == channels || count == groups ? tensor : nullptr;
}

/// Beside images or volumes, one number a channel: [C, 1, 1] or [C, 1, 1, 1].
std::string by_channel(Graph& graph, const Tensor& tensor, Shape shape, std::int64_t groups) {
    const std::int64_t channels = shape[0];
    const std::vector<float> given = tensor.to_floats();
    const bool whole = static_cast<std::int64_t>(given.size()) == channels;
    std::vector<float> all;
    for (std::int64_t c = 0; c < channels; ++c)
        all.push_back(given[static_cast<std::size_t>(whole ? c : c / (channels / groups))]);
    return add_constant(graph, "by_channel", Tensor::of_floats("", std::move(shape), all));
}

/// Root, of the sizes of x, becomes x * factor + shift of GroupFactors(x).
bool by_group_factors(const Site& site, const std::string& x, std::int64_t groups, float epsilon,
                      const std::string& gamma, const std::string& beta) {
    Graph& graph = site.graph;
    const Shape dims = dims_of(graph, x);
    if ((dims.size() != 4 && dims.size() != 5) || groups < 1 || dims[1] % groups != 0 ||
        dims_of(graph, site.root.output(0)) != dims || type_of(graph, x) != DataType::float32)
        return false;
    const Tensor* scale = factors_of(graph, gamma, dims[1], groups);
    const Tensor* bias = factors_of(graph, beta, dims[1], groups);
    if (!gamma.empty() && (scale == nullptr || bias == nullptr)) return false;
    Shape of_samples(dims.size(), 1);
    of_samples[0] = dims[0];
    of_samples[1] = dims[1];
    const Shape of_channels(of_samples.begin() + 1, of_samples.end());
    Node factors = make_node("GroupFactors", {x});
    factors.set("groups", groups);
    factors.set("epsilon", epsilon);
    const std::string shift = graph.unique_name(site.root.output(0) + "/shift");
    factors.outputs = {"", shift};
    const std::string factor = add_before(site, std::move(factors), DataType::float32, of_samples);
    ValueInfo info = graph.value_infos.at(factor);
    info.name = shift;
    graph.value_infos.insert_or_assign(shift, std::move(info));
    std::string value = add_before(site, make_node("Mul", {x, factor}), DataType::float32, dims);
    std::string added = shift;
    if (!gamma.empty()) {
        const std::string factors_of_channels = by_channel(graph, *scale, of_channels, groups);
        value = add_before(site, make_node("Add", {value, shift}), DataType::float32, dims);
        value = add_before(site, make_node("Mul", {value, factors_of_channels}), DataType::float32, dims);
        added = by_channel(graph, *bias, of_channels, groups);
    }
    become(site.root, make_node("Add", {value, added}), site.root);
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
        (dims.size() != 4 && dims.size() != 5) || between.size() != 3 || between[0] != dims[0])
        return false;
    return by_group_factors(site, x, between[1], norm.float_or("epsilon", 1e-5F), "", "");
}

//  InstanceNormalization, GroupNormalization of images   ==>   (x * factor + shift) * scale + bias
bool norm_of_images(const Site& site) {
    const Node norm = site.root;
    const Shape dims = dims_of(site.graph, norm.input(0));
    if ((dims.size() != 4 && dims.size() != 5) || norm.outputs.size() != 1) return false;
    const std::int64_t groups = norm.is("InstanceNormalization") ? dims[1] : norm.int_or("num_groups", 0);
    return by_group_factors(site, norm.input(0), groups, norm.float_or("epsilon", 1e-5F), norm.input(1), norm.input(2));
}

//  InstanceNormalization, GroupNormalization of lines [N, C, L]
//    ==>   Reshape [N, groups, ...] -> InstanceNormalization(ones, zeros) -> Reshape -> Mul -> Add
bool norm_of_lines(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.input(0));
    if (dims.size() != 3 || root.outputs.size() != 1) return false;
    const bool each = root.is("InstanceNormalization");
    const std::int64_t groups = each ? dims[1] : root.int_or("num_groups", 0);
    if (groups < 1 || dims[1] % groups != 0) return false;
    const Tensor* scale = factors_of(graph, root.input(1), dims[1], groups);
    const Tensor* bias = factors_of(graph, root.input(2), dims[1], groups);
    if (scale == nullptr || bias == nullptr) return false;
    if (each && uniform_value(*scale) == 1.0F && uniform_value(*bias) == 0.0F) return false; // as it should be
    const DataType type = type_of(graph, root.input(0));
    const auto of_groups = [&](float value) {
        const std::vector<float> all(static_cast<std::size_t>(groups), value);
        return add_constant(graph, "of_groups", Tensor::of_floats("", {groups}, all));
    };
    const Shape lines{dims[0], groups, dims[1] / groups * dims[2]};
    Node norm = make_node("InstanceNormalization",
                          {each ? root.input(0) : reshaped(site, root.input(0), lines), of_groups(1), of_groups(0)});
    norm.set("epsilon", root.float_or("epsilon", 1e-5F));
    std::string value = add_before(site, std::move(norm), type, lines);
    if (!each) value = reshaped(site, value, dims);
    const std::string factors = by_channel(graph, *scale, {dims[1], 1}, groups);
    value = add_before(site, make_node("Mul", {value, factors}), type, dims);
    become(root, make_node("Add", {value, by_channel(graph, *bias, {dims[1], 1}, groups)}), root);
    return true;
}

} // namespace

std::vector<Rule> group_norm_spellings() {
    return {Rule{Pattern::op("Reshape", {Pattern::op("InstanceNormalization",
                                                     {Pattern::op("Reshape", {Pattern::any("x")})}, "norm")}),
                 group_norm_of_reshapes},
            Rule{Pattern::op("InstanceNormalization|GroupNormalization"), norm_of_images},
            Rule{Pattern::op("InstanceNormalization|GroupNormalization"), norm_of_lines}};
}

} // namespace lathe::cuda
