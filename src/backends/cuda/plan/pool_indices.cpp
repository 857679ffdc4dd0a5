#include "backends/cuda/plan/pool_indices.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Where a window reaches out of the image, it meets its first pixel in it once more. Nothing where it meets none.
bool stay_inside(Sizes& places, std::int64_t taps, std::int64_t results, std::int64_t pixels) {
    for (std::int64_t result = 0; result < results; ++result) {
        const auto at = [&](std::int64_t tap) -> std::int64_t& {
            return places[static_cast<std::size_t>(tap * results + result)];
        };
        std::int64_t first = 0;
        while (first < taps && at(first) == pixels)
            ++first;
        if (first == taps) return false;
        for (std::int64_t tap = 0; tap < taps; ++tap)
            if (at(tap) == pixels) at(tap) = at(first);
    }
    return true;
}

//  x -> MaxPool -> y, indices   ==>   x -> MaxPool -> y
//                                     x -> Gather of windows -> ArgMax -> GatherElements of places -> Add -> indices
//
// Windows of one pixel, by which PyTorch asks where a plane begins, have constant indices.
bool write_indices(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto x = known_sizes(graph, node.input(0)), y = known_sizes(graph, node.output(0));
    if (!x || !y || x->size() < 3 || y->size() != x->size()) return false;
    const bool by_column = node.int_or("storage_order", 0) != 0;
    if (by_column && x->size() != 4) return false;
    const auto spans = spans_of(node, *x, {});
    if (!spans) return false;
    const std::int64_t planes = (*x)[0] * (*x)[1], pixels = element_count(*x) / planes;
    const std::int64_t results = element_count(*y) / planes, taps = element_count(spans->kernel);
    if (taps > most_numbers / results || element_count(*y) > most_numbers) return false;
    Sizes places = places_of_windows(*spans, *x, *y);
    if (!stay_inside(places, taps, results, pixels)) return false;
    Sizes told = places; // what the indices say of them
    for (std::int64_t& place : told)
        if (by_column) place = place % x->back() * (*x)[2] + place / x->back();
    const std::string indices = node.output(1);
    node.outputs.resize(1);
    NodesBefore to(graph, at);
    Node last;
    if (taps == 1) {
        Sizes all;
        for (std::int64_t plane = 0; plane < planes; ++plane)
            for (const std::int64_t place : told)
                all.push_back(plane * pixels + place);
        last = make_node("Identity", {to.integers(all, *y)});
    } else {
        const std::string by_plane = to.reshaped(node.input(0), {planes, pixels});
        const std::string windows = to.gathered(by_plane, to.integers(places, {taps, results}), 1);
        Node largest = make_node("ArgMax", {windows});
        largest.set("axis", std::int64_t{1});
        largest.set("keepdims", std::int64_t{0});
        Node which =
            make_node("GatherElements", {to.integers(told, {taps, results}), to.add(std::move(largest), "largest")});
        which.set("axis", std::int64_t{0});
        Sizes begins(static_cast<std::size_t>(planes));
        for (std::size_t plane = 0; plane < begins.size(); ++plane)
            begins[plane] = static_cast<std::int64_t>(plane) * pixels;
        const std::string sum =
            to.add(make_node("Add", {to.add(std::move(which), "places"), to.integers(begins, {planes, 1})}), "indices");
        last = to.reshape(sum, *y);
    }
    last.outputs = {indices};
    last.name = indices;
    graph.insert(at++, std::move(last));
    return true;
}

//  MaxUnpool(x, indices)   ==>   zeros, indices, x -> ScatterElements -> Reshape
bool write_unpool(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto x = known_sizes(graph, node.input(0));
    const auto kernel = node.ints_or("kernel_shape", {});
    // In an image of another size than follows from the window the indices mean other places.
    if (!x || x->size() < 3 || kernel.size() != x->size() - 2 || !node.input(2).empty()) return false;
    const auto strides = node.ints_or("strides", Sizes(kernel.size(), 1));
    const auto pads = node.ints_or("pads", Sizes(kernel.size() * 2, 0));
    if (strides.size() != kernel.size() || pads.size() != kernel.size() * 2) return false;
    Shape y = *x;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        y[i + 2] = ((*x)[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + kernel.size()];
        if (y[i + 2] < 1) return false;
    }
    const std::int64_t count = element_count(*x), all = element_count(y);
    NodesBefore to(graph, at);
    Node zeros = make_node("ConstantOfShape", {to.integers({all}, {1})});
    const std::vector<float> zero{0.0F};
    const auto value = finite_tensor(type_of(graph, node.input(0)), {1}, zero);
    if (!value) return false;
    zeros.set("value", *value);
    Node scatter = make_node("ScatterElements", {to.add(std::move(zeros), "zeros"), to.reshaped(node.input(1), {count}),
                                                 to.reshaped(node.input(0), {count})});
    scatter.set("axis", std::int64_t{0});
    const Node origin = node;
    become(node, to.reshape(to.add(std::move(scatter), "scattered"), y), origin);
    return true;
}

} // namespace

bool write_out_pool_indices(Graph& graph) {
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const Node& node = *graph.nodes[at];
        if (node.is("MaxPool") && !node.output(1).empty()) changed = write_indices(graph, at) || changed;
        if (node.is("MaxUnpool")) changed = write_unpool(graph, at) || changed;
    }
    return changed;
}

} // namespace lathe::cuda
