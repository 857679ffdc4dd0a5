#include "backends/cuda/plan/col2im.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

std::optional<Sizes> constant_sizes(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    return tensor == nullptr ? std::nullopt : std::optional<Sizes>(tensor->to_int64s());
}

/// What the transposed convolution is, for x of `dims`.
struct Col2ImForm {
    Sizes blocks, output_padding, kernel, strides, dilations, pads;
    std::int64_t channels = 0, places = 0; ///< of an image; of a block
};

std::optional<Col2ImForm> form_of(const Graph& graph, const Node& node, const Shape& dims) {
    const auto image = constant_sizes(graph, node.input(1)), block = constant_sizes(graph, node.input(2));
    if (!image || !block || image->empty() || image->size() != block->size() || dims.size() != 3) return std::nullopt;
    const std::size_t rank = image->size();
    Col2ImForm form;
    form.kernel = *block;
    form.strides = node.ints_or("strides", Sizes(rank, 1));
    form.dilations = node.ints_or("dilations", Sizes(rank, 1));
    form.pads = node.ints_or("pads", Sizes(2 * rank, 0));
    if (form.strides.size() != rank || form.dilations.size() != rank || form.pads.size() != 2 * rank)
        return std::nullopt;
    form.places = 1;
    std::int64_t blocks = 1;
    for (std::size_t i = 0; i < rank; ++i) {
        if ((*block)[i] < 1 || form.strides[i] < 1 || form.dilations[i] < 1) return std::nullopt;
        const std::int64_t reach = form.dilations[i] * ((*block)[i] - 1) + 1;
        const std::int64_t rest = (*image)[i] + form.pads[i] + form.pads[rank + i] - reach;
        if (rest < 0) return std::nullopt;
        form.blocks.push_back(rest / form.strides[i] + 1);
        form.output_padding.push_back(rest % form.strides[i]);
        form.places *= (*block)[i];
        blocks *= form.blocks.back();
    }
    if (dims[1] % form.places != 0 || dims[2] != blocks) return std::nullopt;
    form.channels = dims[1] / form.places;
    return form;
}

} // namespace

//  x [N, C places, blocks]      x
//     |                         Reshape [N, C places, rows, columns]
//  Col2Im               ==>     ConvTranspose of C groups, filter i of a group: 1 at place i
//     |                         |
//     y                         y
bool write_out_col2im(Graph& graph) {
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        Node& node = *graph.nodes[at];
        if (!node.is("Col2Im")) continue;
        const ValueInfo info = graph.info_or_name(node.input(0));
        const Shape dims = info.shape().value_or(Shape{});
        if (std::any_of(dims.begin(), dims.end(), [](std::int64_t size) { return size < 1; })) continue;
        const auto form = form_of(graph, node, dims);
        if (!form) continue;
        Shape filter{form->channels * form->places, 1};
        filter.insert(filter.end(), form->kernel.begin(), form->kernel.end());
        std::vector<float> ones(static_cast<std::size_t>(form->channels * form->places * form->places));
        for (std::size_t i = 0; i < static_cast<std::size_t>(form->channels * form->places); ++i) {
            const auto places = static_cast<std::size_t>(form->places);
            ones[i * places + i % places] = 1;
        }
        const auto weights = finite_tensor(info.type, filter, ones);
        if (!weights) continue;
        Sizes target{dims[0], dims[1]};
        target.insert(target.end(), form->blocks.begin(), form->blocks.end());
        const std::string stem = node.output(0);
        Node split = make_node(
            "Reshape", {node.input(0), add_constant(graph, stem + "_blocks",
                                                    Tensor::of_int64s("", {static_cast<std::int64_t>(target.size())},
                                                                      std::span<const std::int64_t>(target)))});
        split.outputs = {graph.unique_name(stem + "_columns")};
        Node sum = make_node("ConvTranspose", {split.outputs[0], add_constant(graph, stem + "_places", *weights)});
        sum.set("group", form->channels);
        sum.set("kernel_shape", form->kernel);
        sum.set("strides", form->strides);
        sum.set("dilations", form->dilations);
        sum.set("pads", form->pads);
        sum.set("output_padding", form->output_padding);
        become(node, std::move(sum), Node(node));
        graph.insert(at, std::move(split));
        ++at;
        changed = true;
    }
    return changed;
}

} // namespace lathe::cuda
