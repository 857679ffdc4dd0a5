// Filters that are one for all channels, as blurring and resampling write them (upfirdn2d of StyleGAN 2).
#include <algorithm>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

/// A constant of one channel, once for each of `channels`.
std::string repeated(const Site& site, const std::string& value, std::int64_t channels) {
    const Tensor& one = *site.graph.constant(value);
    const std::vector<float> numbers = one.to_floats();
    std::vector<float> all;
    for (std::int64_t c = 0; c < channels; ++c)
        all.insert(all.end(), numbers.begin(), numbers.end());
    Shape shape = one.shape();
    shape[0] = channels;
    return add_constant(site.graph, "by_channel", *finite_tensor(one.type(), std::move(shape), all));
}

//  x [N, C, H, W] -> Reshape [N C, 1, H, W] -> Conv of one filter   ==>   x -> depthwise Conv -> Reshape
//
// An image of one channel would be stored as one of eight.
bool planes_are_channels(const Site& site) {
    Graph& graph = site.graph;
    const Node& reshape = site.match.node("reshape");
    const Tensor& filter = site.match.constant("filter");
    const Node& root = site.root;
    const Shape whole = dims_of(graph, reshape.input(0)), planes = dims_of(graph, root.input(0)),
                out = dims_of(graph, root.output(0));
    const Tensor* bias = graph.constant(root.input(2));
    if (whole.size() != 4 || planes.size() != 4 || out.size() != 4 || whole[1] < 2 ||
        whole[0] * whole[1] != planes[0] || planes[1] != 1 ||
        !std::equal(whole.begin() + 2, whole.end(), planes.begin() + 2) || element_count(whole) == 0 ||
        filter.shape().size() != 4 || filter.shape()[0] != 1 || filter.shape()[1] != 1 ||
        root.int_or("group", 1) != 1 || !is_floating(filter.type()) || filter.type() == DataType::float64 ||
        (!root.input(2).empty() && (bias == nullptr || bias->shape() != Shape{1})))
        return false;
    Shape result = out;
    result[0] = whole[0];
    result[1] = whole[1];
    Node by_channel = root;
    by_channel.inputs = {reshape.input(0), repeated(site, root.input(1), whole[1])};
    if (bias != nullptr) by_channel.inputs.push_back(repeated(site, root.input(2), whole[1]));
    by_channel.set("group", whole[1]);
    const std::string made = add_before(site, std::move(by_channel), type_of(graph, root.output(0)), result);
    become(site.root, reshape_node(graph, made, out), site.root);
    return true;
}

} // namespace

std::vector<Rule> plane_spellings() {
    return {Rule{Pattern::op("Conv", {Pattern::op("Reshape", {}, "reshape"), Pattern::constant("filter")}),
                 planes_are_channels}};
}

} // namespace lathe::cuda
