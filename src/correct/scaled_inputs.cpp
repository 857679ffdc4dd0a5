#include "correct/scaled_inputs.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "quantize/edges.hpp"

namespace lathe {

std::vector<ChannelClass> scaled_inputs(const Model& model, const std::vector<ChannelClass>& classes,
                                        const std::set<std::string>& layers) {
    const Graph& graph = model.graph;
    const EdgeIndex index(graph);
    std::set<std::size_t> taken;
    for (const ChannelClass& each : classes) {
        for (const auto& reader : each.readers)
            taken.insert(reader.node);
    }
    std::map<std::string, ChannelClass> found;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = *graph.nodes[i];
        if (!node.is("MatMul") || !layers.contains(node.output(0)) || taken.contains(i)) continue;
        const std::string& value = node.input(0);
        const Tensor* weight = graph.constant(node.input(1));
        if (weight == nullptr || weight->type() != DataType::float32 || weight->shape().size() != 2 ||
            index.is_constant(value) || !index.is_float32(value, true)) {
            continue;
        }
        const auto info = graph.info(value);
        if (!info || !info->dims || info->dims->size() < 3) continue;
        ChannelClass& here = found[value];
        here.value = value;
        here.channels = static_cast<std::size_t>(weight->shape()[0]);
        here.readers.push_back({i, false});
    }
    std::vector<ChannelClass> result;
    for (auto& [value, each] : found)
        result.push_back(std::move(each));
    std::ranges::sort(result, {}, [](const ChannelClass& each) { return each.readers.front().node; });
    return result;
}

void scale_in_front(Graph& graph, const std::string& value, std::span<const float> factors,
                    const std::vector<Node*>& readers) {
    const std::string scale = graph.unique_name(value + "_smooth_scale");
    const std::string scaled = graph.unique_name(value + "_smooth");
    graph.initializers.insert_or_assign(scale,
                                        Tensor::of_floats(scale, {static_cast<std::int64_t>(factors.size())}, factors));
    if (auto info = graph.info(value)) {
        info->name = scaled;
        graph.value_infos[scaled] = *std::move(info);
    }
    Node mul;
    mul.op_type = "Mul";
    mul.name = scaled;
    mul.inputs = {value, scale};
    mul.outputs = {scaled};
    const auto first = std::ranges::find_if(
        graph.nodes, [&](const auto& node) { return std::ranges::find(readers, node.get()) != readers.end(); });
    graph.insert(static_cast<std::size_t>(first - graph.nodes.begin()), std::move(mul));
    for (Node* reader : readers)
        std::ranges::replace(reader->inputs, value, scaled);
}

} // namespace lathe
