#include "correct/as_run.hpp"

#include <algorithm>
#include <unordered_set>

#include "quantize/edges.hpp"

namespace lathe {

Model as_run(const Model& quantized, Target target) {
    Model model = quantized;
    if (target != Target::openvino) return model;
    const EdgeIndex index(quantized.graph);
    std::unordered_set<std::string> dropped; // outputs of the nodes to remove
    for (std::size_t i = 0; i < quantized.graph.nodes.size(); ++i) {
        const Node& node = index.node(i);
        if (!node.is("QuantizeLinear")) continue;
        const auto producer = index.producer(node.input(0));
        const auto pair = index.only_reader(node.output(0));
        if (!producer || !index.node(*producer).is("Conv") || !pair) continue;
        const Node& back = index.node(pair->node);
        if (!back.is("DequantizeLinear") || index.read_outside(back.output(0))) continue;
        const auto& readers = index.readers(back.output(0));
        const bool sums = !readers.empty() && std::ranges::all_of(readers, [&](const Edge& edge) {
            return index.node(edge.node).is("Add");
        });
        if (!sums) continue;
        for (const Edge& edge : readers)
            model.graph.nodes[edge.node]->inputs[edge.input] = node.input(0);
        dropped.insert(node.output(0));
        dropped.insert(back.output(0));
    }
    model.graph.remove_nodes([&](const Node& node) { return dropped.contains(node.output(0)); });
    return model;
}

} // namespace lathe
