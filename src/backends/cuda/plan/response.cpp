#include "backends/cuda/plan/response.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {
namespace {

/// Squares are of x / scale, so that activations up to 16,384 fit 16 bits.
constexpr float scale = 64;

//  x [N, C, ..]       x / 64 -> square -> Conv 1x1: bias + alpha / size * the sum over neighbouring channels -> Pow
//  beta
//   |            ==>  x ------------------------------------------------------------------------------------ Div
//  LRN
bool write_response(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto x = known_sizes(graph, node.input(0));
    const DataType type = type_of(graph, node.input(0));
    const std::int64_t size = node.int_or("size", 0);
    if (!x || x->size() < 3 || x->size() > 5 || size < 1 || (*x)[1] > most_numbers / (*x)[1]) return false;
    const std::int64_t channels = (*x)[1], before = (size - 1) / 2, behind = size - 1 - before;
    const float weight = node.float_or("alpha", 1e-4F) / static_cast<float>(size) * scale * scale;
    std::vector<float> band(static_cast<std::size_t>(channels * channels));
    for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = std::max<std::int64_t>(0, c - before); i <= std::min(channels - 1, c + behind); ++i)
            band[static_cast<std::size_t>(c * channels + i)] = weight;
    Shape window{channels, channels};
    window.resize(x->size(), 1);
    const std::vector<float> biases(static_cast<std::size_t>(channels), node.float_or("bias", 1));
    const auto weights = finite_tensor(type, window, band), bias = finite_tensor(type, {channels}, biases);
    if (!weights || !bias) return false;
    NodesBefore to(graph, at);
    const auto number = [&](float value) { return add_scalar(graph, "number", type, value); };
    const std::string small = to.add(make_node("Mul", {node.input(0), number(1 / scale)}), "small");
    const std::string squares = to.add(make_node("Mul", {small, small}), "squares");
    Node sum = make_node("Conv", {squares, to.constant("band", *weights), to.constant("bias", *bias)});
    const std::string sums = to.add(std::move(sum), "sums");
    const std::string divisor = to.add(make_node("Pow", {sums, number(node.float_or("beta", 0.75F))}), "divisor");
    const Node origin = node;
    become(node, make_node("Div", {origin.input(0), divisor}), origin);
    return true;
}

} // namespace

bool write_out_response_normalization(Graph& graph) { return rewrite_each(graph, "LRN", write_response); }

} // namespace lathe::cuda
