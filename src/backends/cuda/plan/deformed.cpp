#include "backends/cuda/plan/deformed.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Where each tap (r, s) of each result (i, j) lies without an offset, at [i, r, j, s]: its x and y as GridSample
/// counts them, from -1 to 1 over the edges of the image.
std::vector<float> undeformed(const Spans& spans, const Shape& x, const Shape& y) {
    const auto edges = [](std::int64_t place, std::int64_t size) {
        return static_cast<float>(static_cast<double>(2 * place + 1) / static_cast<double>(size) - 1);
    };
    std::vector<float> places;
    for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t r = 0; r < spans.kernel[0]; ++r)
            for (std::int64_t j = 0; j < y[3]; ++j)
                for (std::int64_t s = 0; s < spans.kernel[1]; ++s) {
                    places.push_back(edges(j * spans.strides[1] - spans.pads[1] + s * spans.dilations[1], x[3]));
                    places.push_back(edges(i * spans.strides[0] - spans.pads[0] + r * spans.dilations[0], x[2]));
                }
    return places;
}

//  x, offsets (y, x) [N, G taps 2, ...], mask   ==>   grid = offsets * 2 / size + places
//   |                                                  |
//  DeformConv, window R x S                           GridSample [N G, C/G, H' R, W' S] * mask
//                                                      |
//                                                     Conv, window and stride R x S
bool write_deform_conv(Graph& graph, std::size_t& at, std::int64_t opset) {
    Node& node = *graph.nodes[at];
    const auto x = known_sizes(graph, node.input(0)), filter = known_sizes(graph, node.input(1)),
               offsets = known_sizes(graph, node.input(2)), y = known_sizes(graph, node.output(0));
    const DataType type = type_of(graph, node.input(0));
    if (!x || !filter || !offsets || !y || x->size() != 4 || filter->size() != 4 || offsets->size() != 4 ||
        y->size() != 4)
        return false;
    const auto spans = spans_of(node, *x, {(*filter)[2], (*filter)[3]});
    const std::int64_t groups = node.int_or("offset_group", 1);
    if (!spans || groups < 1 || (*x)[1] % groups != 0) return false;
    const std::int64_t r = spans->kernel[0], s = spans->kernel[1], h = (*y)[2], w = (*y)[3];
    const std::int64_t images = (*x)[0] * groups, channels = (*x)[1] / groups;
    if (r != (*filter)[2] || s != (*filter)[3] || *offsets != Shape{(*x)[0], groups * r * s * 2, h, w} ||
        h * w > most_numbers / (r * s * 2))
        return false;
    const std::vector<float> steps{2 / static_cast<float>((*x)[3]), 2 / static_cast<float>((*x)[2])};
    const auto step = finite_tensor(type, {2}, steps);
    const auto places = finite_tensor(type, {1, h * r, w * s, 2}, undeformed(*spans, *x, *y));
    if (!step || !places) return false;
    const bool masked = !node.input(4).empty();
    if (masked && known_sizes(graph, node.input(4)) != Shape{(*x)[0], groups * r * s, h, w}) return false;

    Sizes x_first(static_cast<std::size_t>((*offsets)[1]));
    for (std::size_t i = 0; i < x_first.size(); ++i)
        x_first[i] = static_cast<std::int64_t>(i ^ 1U);
    NodesBefore to(graph, at);
    const std::int64_t count = (*offsets)[1];
    std::string grid = to.gathered(node.input(2), to.integers(x_first, {count}), 1);
    grid = to.transposed(to.reshaped(grid, {images, r, s, 2, h, w}), {0, 4, 1, 5, 2, 3});
    grid = to.reshaped(grid, {images, h * r, w * s, 2});
    grid = to.add(make_node("Mul", {grid, to.constant("step", *step)}), "offsets");
    grid = to.add(make_node("Add", {grid, to.constant("places", *places)}), "grid");
    Node sample = make_node("GridSample", {to.reshaped(node.input(0), {images, channels, (*x)[2], (*x)[3]}), grid});
    sample.set("mode", std::string(opset < 20 ? "bilinear" : "linear"));
    std::string value = to.add(std::move(sample), "sampled");
    if (masked) {
        const std::string mask = to.transposed(to.reshaped(node.input(4), {images, r, s, h, w}), {0, 3, 1, 4, 2});
        value = to.add(make_node("Mul", {value, to.reshaped(mask, {images, 1, h * r, w * s})}), "masked");
    }
    Node sum = make_node("Conv", {to.reshaped(value, {(*x)[0], (*x)[1], h * r, w * s}), node.input(1)});
    if (!node.input(3).empty()) sum.inputs.push_back(node.input(3));
    sum.set("group", node.int_or("group", 1));
    sum.set("kernel_shape", Sizes{r, s});
    sum.set("strides", Sizes{r, s});
    const Node origin = node;
    become(node, std::move(sum), origin);
    return true;
}

} // namespace

bool write_out_deform_conv(Graph& graph, std::int64_t opset) {
    return rewrite_each(graph, "DeformConv",
                        [&](Graph&, std::size_t& at) { return write_deform_conv(graph, at, opset); });
}

} // namespace lathe::cuda
