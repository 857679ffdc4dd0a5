#include <algorithm>
#include <cstdint>

#include "passes/channel_affine.hpp"
#include "passes/linear_maps.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// A convolution with constant weights that reads `kernel` places from `begin` before a result's own place on.
struct Branch {
    const Tensor* weight = nullptr;
    std::vector<double> bias; ///< one a channel, or none
    std::vector<std::int64_t> kernel, begin, end, strides;
    std::int64_t groups = 1;
};

std::optional<Branch> branch_of(const Graph& graph, const Node& node) {
    Branch branch;
    branch.weight = graph.constant(node.input(1));
    if (branch.weight == nullptr || !is_floating(branch.weight->type()) || branch.weight->count() == 0 ||
        branch.weight->shape().size() < 3)
        return std::nullopt;
    const Shape& shape = branch.weight->shape();
    branch.kernel.assign(shape.begin() + 2, shape.end());
    const std::size_t axes = branch.kernel.size();
    const std::string pad = node.string_or("auto_pad", "NOTSET");
    const auto pads = node.ints_or("pads", std::vector<std::int64_t>(2 * axes, 0));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(axes, 1));
    branch.strides = node.ints_or("strides", std::vector<std::int64_t>(axes, 1));
    branch.groups = node.int_or("group", 1);
    if ((pad != "NOTSET" && pad != "VALID") || pads.size() != 2 * axes || dilations.size() != axes ||
        branch.strides.size() != axes || branch.groups < 1)
        return std::nullopt;
    if (pad == "VALID" && std::ranges::any_of(pads, [](std::int64_t each) { return each != 0; })) return std::nullopt;
    for (std::size_t i = 0; i < axes; ++i) {
        if (dilations[i] != 1 && branch.kernel[i] != 1) return std::nullopt;
        branch.begin.push_back(pads[i]);
        branch.end.push_back(pads[axes + i]);
    }
    auto bias = constant_bias(graph, node.input(2), shape[0], branch.weight->type());
    if (!bias) return std::nullopt;
    branch.bias = std::move(*bias);
    return branch;
}

/// Where in `wide`'s kernel `narrow`'s begins; nothing if it does not lie in it.
std::optional<std::vector<std::int64_t>> place_in(const Branch& wide, const Branch& narrow) {
    if (wide.strides != narrow.strides) return std::nullopt;
    std::vector<std::int64_t> at;
    for (std::size_t i = 0; i < wide.kernel.size(); ++i) {
        const std::int64_t before = wide.begin[i] - narrow.begin[i];
        const std::int64_t behind = wide.end[i] - narrow.end[i];
        if (before < 0 || behind < 0 || before + narrow.kernel[i] + behind != wide.kernel[i]) return std::nullopt;
        at.push_back(before);
    }
    return at;
}

/// The root as the convolution `wide` with these numbers; false if one is not finite.
bool become_sum(const Site& site, const Node& wide, const Branch& branch, const std::vector<double>& weight,
                const std::vector<double>& bias) {
    const DataType type = branch.weight->type();
    const auto made = finite_tensor(type, branch.weight->shape(), std::vector<float>(weight.begin(), weight.end()));
    const auto shift =
        finite_tensor(type, {static_cast<std::int64_t>(bias.size())}, std::vector<float>(bias.begin(), bias.end()));
    if (!made || !shift) return false;
    Node sum = wide;
    sum.inputs = {wide.input(0), add_constant(site.graph, wide.input(1), *made),
                  add_constant(site.graph, wide.input(2).empty() ? wide.input(1) + ".bias" : wide.input(2), *shift)};
    become(site.root, std::move(sum), wide);
    return true;
}

std::vector<double> doubles(const Tensor& tensor) {
    const auto values = tensor.to_floats();
    return {values.begin(), values.end()};
}

std::vector<double> bias_of(const Branch& branch) {
    return branch.bias.empty() ? std::vector<double>(static_cast<std::size_t>(branch.weight->shape()[0]), 0.0)
                               : branch.bias;
}

bool merge_convolutions(const Site& site) {
    const Node* wide_node = &site.match.node("one");
    const Node* narrow_node = &site.match.node("other");
    auto wide = branch_of(site.graph, *wide_node);
    auto narrow = branch_of(site.graph, *narrow_node);
    if (!wide || !narrow || wide->groups != narrow->groups || wide->weight->type() != narrow->weight->type() ||
        wide->kernel.size() != narrow->kernel.size())
        return false;
    if (wide->weight->count() < narrow->weight->count()) {
        std::swap(wide, narrow);
        std::swap(wide_node, narrow_node);
    }
    const Shape& to = wide->weight->shape();
    const Shape& from = narrow->weight->shape();
    const auto at = place_in(*wide, *narrow);
    if (!at || to[0] != from[0] || to[1] != from[1]) return false;
    std::vector<double> weight = doubles(*wide->weight);
    const std::vector<double> added = doubles(*narrow->weight);
    for (std::size_t i = 0; i < added.size(); ++i) {
        // Of element i the index along each axis of the kernel, and with it the place in the wider one.
        auto rest = static_cast<std::int64_t>(i);
        std::int64_t place = 0;
        std::int64_t step = 1;
        for (std::size_t axis = at->size(); axis-- > 0;) {
            place += (rest % narrow->kernel[axis] + (*at)[axis]) * step;
            rest /= narrow->kernel[axis];
            step *= wide->kernel[axis];
        }
        weight[static_cast<std::size_t>(rest * step + place)] += added[i];
    }
    std::vector<double> bias = bias_of(*wide);
    const std::vector<double> more = bias_of(*narrow);
    for (std::size_t c = 0; c < bias.size(); ++c)
        bias[c] += more[c];
    return become_sum(site, *wide_node, *wide, weight, bias);
}

bool merge_normalisation(const Site& site) {
    const Node& node = site.match.node("one");
    const Node& norm = site.match.node("norm");
    const auto branch = branch_of(site.graph, node);
    if (!branch || site.context.opset < 9 || !is_inference(norm, site.context.opset)) return false;
    const Shape& shape = branch->weight->shape();
    const auto channels = static_cast<std::size_t>(shape[0]);
    Branch identity = *branch;
    identity.kernel.assign(branch->kernel.size(), 1);
    identity.begin.assign(branch->kernel.size(), 0);
    identity.end = identity.begin;
    const auto at = place_in(*branch, identity);
    if (!at || shape[1] * branch->groups != shape[0] ||
        std::ranges::any_of(branch->strides, [](std::int64_t each) { return each != 1; }))
        return false;
    const auto affine = affine_of_norm(site.match, norm, channels);
    if (!affine) return false;
    std::vector<double> weight = doubles(*branch->weight);
    std::vector<double> bias = bias_of(*branch);
    std::int64_t place = 0, size = 1;
    for (std::size_t axis = at->size(); axis-- > 0; size *= branch->kernel[axis])
        place += (*at)[axis] * size;
    for (std::size_t c = 0; c < channels; ++c) {
        const auto input = static_cast<std::int64_t>(c) % shape[1]; // of its group
        weight[static_cast<std::size_t>((static_cast<std::int64_t>(c) * shape[1] + input) * size + place)] +=
            affine->scale[c];
        bias[c] += affine->shift[c];
    }
    return become_sum(site, node, *branch, weight, bias);
}

} // namespace

//  x ---------- Conv(3x3) \                   x
//  |                       Add                |
//  +----------- Conv(1x1) /    \       ==>    Conv(3x3)
//  |                            Add           |
//  +-- BatchNormalization ------/             y
//
// Branches of one input whose sum is one convolution (RepVGG, Ding et al., 2021; MobileOne, Vasu et al., 2023), as they
// are trained and often exported. The narrower kernel lies inside the wider one: same strides, paddings that differ by
// what the kernels do. Weights that somebody else reads stay as they are.
Result<bool> merge_branches(Graph& graph, PassContext& context) {
    const auto convolution = [](const char* name) {
        return Pattern::op("Conv", {Pattern::any("x"), Pattern::any()}, name).used_once();
    };
    static const std::vector<Rule> rules{
        {Pattern::op("Add", {convolution("one"), convolution("other")}), merge_convolutions},
        {Pattern::op("Add", {convolution("one"),
                             Pattern::op("BatchNormalization",
                                         {Pattern::any("x"), Pattern::constant("scale"), Pattern::constant("shift"),
                                          Pattern::constant("mean"), Pattern::constant("variance")},
                                         "norm")
                                 .used_once()})
             .any_order(),
         merge_normalisation}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
