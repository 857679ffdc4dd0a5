#include "backends/cuda/plan/few_filters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {
namespace {

/// Columns of the narrowest product that wide kernels compute, and the bytes of a pixel's channels that they take at
/// once.
constexpr std::int64_t columns = 64, channels_at_once = 64;
/// Products that a GPU does while it reads and writes the results of the taps once: fewer must not be saved.
constexpr double least_saved = 1.5e9;

struct WideWindow {
    std::int64_t filters = 0, channels = 0, height = 0, width = 0;
    std::array<std::int64_t, 2> strides{1, 1}, dilations{1, 1};
    std::array<std::int64_t, 4> pads{};
};

std::optional<WideWindow> wide_window_of(const Node& conv, const Tensor& weight, const Shape& x) {
    const Shape& w = weight.shape();
    const std::string padding = conv.string_or("auto_pad", "NOTSET");
    const auto strides = conv.ints_or("strides", {1, 1}), dilations = conv.ints_or("dilations", {1, 1}),
               pads = conv.ints_or("pads", {0, 0, 0, 0});
    if (w.size() != 4 || x.size() != 4 || conv.int_or("group", 1) != 1 || !is_floating(weight.type()) ||
        (padding != "NOTSET" && padding != "VALID") || strides.size() != 2 || dilations.size() != 2 ||
        pads.size() != 4 || strides[1] != 1)
        return std::nullopt;
    WideWindow window{w[0], w[1], w[2], w[3], {}, {}, {}};
    std::ranges::copy(strides, window.strides.begin());
    std::ranges::copy(dilations, window.dilations.begin());
    if (padding == "NOTSET") std::ranges::copy(pads, window.pads.begin());
    return window;
}

/// Whether enough products of empty columns are saved.
bool pays(const WideWindow& window, double results) {
    if (window.width < 3 || window.filters > 8 || window.filters * window.width > columns || window.channels < 16)
        return false;
    const auto depth =
        static_cast<double>((window.channels + channels_at_once - 1) / channels_at_once * channels_at_once);
    const double taps = static_cast<double>((window.width - 1) * window.height);
    return results * taps * depth * static_cast<double>(columns) >= least_saved;
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
    const auto window = wide_window_of(conv, *weight, *x);
    if (!window || !pays(*window, static_cast<double>((*y)[0] * (*y)[2] * (*y)[3]))) return false;
    const std::int64_t filters = window->filters, of_column = window->channels * window->height;
    const std::vector<float> numbers = weight->to_floats();
    std::vector<float> taps;
    taps.reserve(numbers.size());
    for (std::int64_t s = 0; s < window->width; ++s)
        for (std::int64_t i = 0; i < filters * of_column; ++i)
            taps.push_back(numbers[static_cast<std::size_t>(i * window->width + s)]);
    const auto narrow =
        finite_tensor(weight->type(), {filters * window->width, window->channels, window->height, 1}, taps);
    if (!narrow) return false;
    const std::optional<Tensor> shift =
        bias == nullptr ? std::nullopt : finite_tensor(bias->type(), {1, filters, 1, 1}, bias->to_floats());
    if (bias != nullptr && !shift) return false;

    NodesBefore to(graph, at);
    Node wide = make_node("Conv", {conv.input(0), to.constant("taps", *narrow)});
    wide.set("strides", std::vector<std::int64_t>{window->strides[0], 1});
    wide.set("dilations", std::vector<std::int64_t>{window->dilations[0], 1});
    wide.set("pads", std::vector<std::int64_t>(window->pads.begin(), window->pads.end()));
    const std::string all = to.add(std::move(wide), "taps");
    const std::string axes = to.integers({1, 3}, {2});
    const auto column = [&](std::int64_t s) {
        const std::int64_t first = s * window->dilations[1];
        return to.add(make_node("Slice", {all, to.integers({s * filters, first}, {2}),
                                          to.integers({(s + 1) * filters, first + (*y)[3]}, {2}), axes}),
                      "column");
    };
    std::string sum = column(0);
    Node last;
    for (std::int64_t s = 1; s < window->width; ++s) {
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
