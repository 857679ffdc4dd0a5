#include <algorithm>
#include <cmath>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

using Integers = std::vector<std::int64_t>;

/// The number a Pad fills with; nothing if it is not constant.
std::optional<float> pad_value(const Site& site, const Node& pad) {
    if (site.context.opset < 11) return pad.float_or("value", 0);
    if (pad.input(2).empty()) return 0.0F;
    const Tensor* value = site.graph.constant(pad.input(2));
    return value == nullptr ? std::nullopt : uniform_value(*value);
}

/// Padding of the spatial axes as [begins..., ends...], if the Pad adds to no other axis and removes nothing.
std::optional<Integers> spatial_pads(const Site& site, const Node& pad, std::size_t rank) {
    const auto all = constant_pads(site.graph, pad, rank, site.context.opset);
    if (!all || pad.string_or("mode", "constant") != "constant") return std::nullopt;
    if ((*all)[0] != 0 || (*all)[1] != 0 || (*all)[rank] != 0 || (*all)[rank + 1] != 0) return std::nullopt;
    Integers pads(all->begin() + 2, all->begin() + static_cast<std::ptrdiff_t>(rank));
    pads.insert(pads.end(), all->begin() + static_cast<std::ptrdiff_t>(rank) + 2, all->end());
    const bool grows = std::all_of(pads.begin(), pads.end(), [](std::int64_t n) { return n >= 0; });
    return grows ? std::optional(std::move(pads)) : std::nullopt;
}

/// The reader's own explicit pads; nothing if it computes them from the input's size.
std::optional<Integers> own_pads(const Node& reader, std::size_t spatial) {
    const std::string mode = reader.string_or("auto_pad", "NOTSET");
    if (mode == "VALID") return Integers(2 * spatial, 0);
    if (mode != "NOTSET") return std::nullopt;
    Integers pads = reader.ints_or("pads", Integers(2 * spatial, 0));
    return pads.size() == 2 * spatial ? std::optional(std::move(pads)) : std::nullopt;
}

bool all_zero(const Integers& pads) {
    return std::all_of(pads.begin(), pads.end(), [](std::int64_t n) { return n == 0; });
}

/// Every window then covers at least one element that is no padding, and runtimes accept the pads.
bool smaller_than_kernel(const Integers& pads, const Integers& kernel) {
    for (std::size_t i = 0; i < pads.size(); ++i) {
        if (pads[i] >= kernel[i % kernel.size()]) return false;
    }
    return true;
}

void take_over(const Site& site, const Node& pad, const Integers& pads) {
    site.root.inputs[0] = pad.inputs[0];
    site.root.erase_attribute("auto_pad");
    site.root.set("pads", pads);
}

std::optional<Integers> sum_of_pads(const Site& site, const Node& pad, std::size_t spatial) {
    const auto added = spatial_pads(site, pad, spatial + 2);
    auto own = own_pads(site.root, spatial);
    if (!added || !own) return std::nullopt;
    for (std::size_t i = 0; i < own->size(); ++i)
        (*own)[i] += (*added)[i];
    return own;
}

bool pad_into_conv(const Site& site) {
    const Node& pad = site.match.node("pad");
    const auto weight = site.graph.info(site.root.input(1));
    if (!weight || !weight->dims || weight->dims->size() < 3) return false;
    const auto pads = sum_of_pads(site, pad, weight->dims->size() - 2);
    if (!pads || pad_value(site, pad) != 0.0F) return false;
    take_over(site, pad, *pads);
    return true;
}

bool pad_into_average(const Site& site) {
    const Node& pad = site.match.node("pad");
    const auto kernel = site.root.ints_or("kernel_shape", {});
    const auto own = own_pads(site.root, kernel.size());
    if (kernel.empty() || !own || pad_value(site, pad) != 0.0F || site.context.opset < 7) return false;
    // The Pad's zeros count in the mean. The pool's own padding must count too, or be none.
    if (!all_zero(*own) && site.root.int_or("count_include_pad", 0) == 0) return false;
    if (site.root.int_or("ceil_mode", 0) != 0) return false;
    const auto pads = sum_of_pads(site, pad, kernel.size());
    if (!pads || !smaller_than_kernel(*pads, kernel)) return false;
    take_over(site, pad, *pads);
    site.root.set("count_include_pad", std::int64_t{1});
    return true;
}

/// Surely computes no negative number.
bool is_non_negative(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr) return false;
    if (node->is("Relu") || node->is("Sigmoid") || node->is("Softmax") || node->is("HardSigmoid")) return true;
    if (!node->is("Clip")) return false;
    if (site.context.opset < 11) return node->float_or("min", -1) >= 0;
    const Tensor* least = site.graph.constant(node->input(1));
    return least != nullptr && uniform_value(*least).value_or(-1) >= 0;
}

bool pad_into_max(const Site& site) {
    const Node& pad = site.match.node("pad");
    const auto kernel = site.root.ints_or("kernel_shape", {});
    const auto dilations = site.root.ints_or("dilations", Integers(kernel.size(), 1));
    const auto value = pad_value(site, pad);
    // MaxPool pads with -infinity. Zeros are the same beside numbers that are not negative, if there is one in each
    // window. Indices (the second output) count positions in the padded input.
    const bool same = value && (*value == -INFINITY || (*value == 0 && is_non_negative(site, pad.input(0))));
    const bool plain = site.root.int_or("ceil_mode", 0) == 0 && site.root.output(1).empty() &&
                       std::all_of(dilations.begin(), dilations.end(), [](std::int64_t d) { return d == 1; });
    if (kernel.empty() || !same || !plain) return false;
    const auto pads = sum_of_pads(site, pad, kernel.size());
    if (!pads || !smaller_than_kernel(*pads, kernel)) return false;
    take_over(site, pad, *pads);
    return true;
}

} // namespace

//  x                         x
//  |                         |
//  Pad(0, p)          ==>    Conv(pads = p + q)
//  |                         |
//  Conv(pads = q)            y
//  |
//  y
//
// AveragePool then counts padding; MaxPool only where its padding of -infinity gives the same.
Result<bool> merge_pads(Graph& graph, PassContext& context) {
    const auto pad = [] { return Pattern::op("Pad", {Pattern::any()}, "pad"); };
    static const std::vector<Rule> rules{
        {Pattern::op("Conv", {pad()}), pad_into_conv},
        {Pattern::op("AveragePool", {pad()}), pad_into_average},
        {Pattern::op("MaxPool", {pad()}), pad_into_max},
    };
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
