#include "correct/carry_over.hpp"

#include <map>
#include <string>

#include "correct/quantized_layer.hpp"

namespace lathe {
namespace {

bool take_weight(const QuantizedLayer& from, const QuantizedLayer& to, Graph& graph) {
    if (from.steps == to.steps) return false;
    graph.initializers.insert_or_assign(to.weight,
                                        Tensor::of<std::int8_t>(to.weight, DataType::int8, to.shape, from.steps));
    return true;
}

bool take_bias(const QuantizedLayer& from, const QuantizedLayer& to, Graph& graph) {
    if (!from.bias || !to.bias || from.bias->values == to.bias->values) return false;
    put_bias(graph, to, from.bias->values);
    return true;
}

} // namespace

std::size_t carry_over_corrections(const Model& corrected, Model& quantized) {
    std::map<std::string, QuantizedLayer> known; // by output
    for (QuantizedLayer& layer : quantized_layers(corrected)) {
        std::string output = layer.output;
        known.emplace(std::move(output), std::move(layer));
    }
    std::size_t taken = 0;
    for (const QuantizedLayer& layer : quantized_layers(quantized)) {
        const auto found = known.find(layer.output);
        if (found == known.end()) continue;
        const QuantizedLayer& from = found->second;
        if (from.scales != layer.scales || from.shape != layer.shape) continue;
        const bool weight = take_weight(from, layer, quantized.graph);
        const bool bias = take_bias(from, layer, quantized.graph);
        taken += weight || bias ? 1U : 0U;
    }
    return taken;
}

} // namespace lathe
