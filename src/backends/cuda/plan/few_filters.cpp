#include "backends/cuda/plan/few_filters.hpp"

#include <optional>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

/// Columns of the narrowest product that wide kernels compute, and the bytes of a pixel's channels that they take at
/// once.
constexpr std::int64_t columns = 64, channels_at_once = 64;
/// Products that a GPU does while it reads and writes the results of the taps once: fewer must not be saved.
constexpr double least_saved = 1.5e9;

/// Whether enough products of empty columns are saved; `w`: the filters' sizes [K, C, kh, kw].
bool pays(const Shape& w, double results) {
    if (w[3] < 3 || w[0] > 8 || w[0] * w[3] > columns || w[1] < 16) return false;
    const auto depth = static_cast<double>((w[1] + channels_at_once - 1) / channels_at_once * channels_at_once);
    return results * static_cast<double>((w[3] - 1) * w[2]) * depth * static_cast<double>(columns) >= least_saved;
}

//  x                              x
//  |                              Conv of kh x 1, filter (s, k): column s of filter k
//  Conv of kh x kw filters  ==>   Slice [(s, 0..k), s columns further], one for each s
//  |                              Sum, and the bias
//  y                              y
bool write_taps(Graph& graph, std::size_t& at) {
    const Node conv = *graph.nodes[at];
    const Tensor* weight = graph.constant(conv.input(1));
    const Tensor* bias = conv.input(2).empty() ? nullptr : graph.constant(conv.input(2));
    const auto x = known_sizes(graph, conv.input(0)), y = known_sizes(graph, conv.output(0));
    if (weight == nullptr || !x || !y || y->size() != 4 || (bias == nullptr && !conv.input(2).empty())) return false;
    const Shape& w = weight->shape();
    if (w.size() != 4 || conv.int_or("group", 1) != 1 || !is_floating(weight->type()) ||
        !pays(w, static_cast<double>((*y)[0] * (*y)[2] * (*y)[3])))
        return false;
    const auto window = window_of(conv, *x, {w[2], w[3]});
    if (!window || window->stride[1] != 1) return false;
    const std::int64_t filters = w[0], of_column = w[1] * w[2], width = w[3];
    if (bias != nullptr && static_cast<std::int64_t>(bias->count()) != filters) return false;
    const std::vector<float> numbers = weight->to_floats();
    std::vector<float> taps;
    taps.reserve(numbers.size());
    for (std::int64_t s = 0; s < width; ++s)
        for (std::int64_t i = 0; i < filters * of_column; ++i)
            taps.push_back(numbers[static_cast<std::size_t>(i * width + s)]);
    const auto narrow = finite_tensor(weight->type(), {filters * width, w[1], w[2], 1}, taps);
    if (!narrow) return false;
    const std::optional<Tensor> shift =
        bias == nullptr ? std::nullopt : finite_tensor(bias->type(), {1, filters, 1, 1}, bias->to_floats());
    if (bias != nullptr && !shift) return false;

    NodesBefore to(graph, at);
    Node wide = make_node("Conv", {conv.input(0), to.constant("taps", *narrow)});
    wide.set("strides", std::vector<std::int64_t>{window->stride[0], 1});
    wide.set("dilations", std::vector<std::int64_t>{window->dilation[0], 1});
    wide.set("pads", std::vector<std::int64_t>(window->pads.begin(), window->pads.end()));
    const std::string all = to.add(std::move(wide), "taps");
    const std::string axes = to.integers({1, 3}, {2});
    const auto column = [&](std::int64_t s) {
        const std::int64_t first = s * window->dilation[1];
        return to.add(make_node("Slice", {all, to.integers({s * filters, first}, {2}),
                                          to.integers({(s + 1) * filters, first + (*y)[3]}, {2}), axes}),
                      "column");
    };
    std::string sum = column(0);
    Node last;
    for (std::int64_t s = 1; s < width; ++s) {
        if (s > 1) sum = to.add(std::move(last), "sum");
        const std::string next = column(s);
        last = make_node("Add", {sum, next});
    }
    if (shift) {
        sum = to.add(std::move(last), "sum");
        last = make_node("Add", {sum, to.constant("bias", *shift)});
    }
    become(*graph.nodes[at], std::move(last), conv);
    return true;
}

} // namespace

bool write_out_few_filters(Graph& graph) { return rewrite_each(graph, "Conv", write_taps); }

} // namespace lathe::cuda
