#include "correct/quantized_layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "quantize/edges.hpp"
#include "quantize/ops.hpp"

namespace lathe {
namespace {

const Node* dequantizer_of(const EdgeIndex& index, const std::string& value) {
    const auto producer = index.producer(value);
    if (!producer) return nullptr;
    const Node& node = index.node(*producer);
    return node.is("DequantizeLinear") ? &node : nullptr;
}

std::optional<float> only_value(const Graph& graph, const std::string& name) {
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr) return std::nullopt;
    const std::vector<float> values = tensor->to_floats();
    if (values.size() != 1) return std::nullopt;
    return values.front();
}

std::optional<Quantizer> quantizer_of(const EdgeIndex& index, const std::string& value, std::string& quantized) {
    // Reshaping ops may lie between the pair and the layer; they do not change the values.
    std::string name = value;
    for (int hops = 0; hops < 8; ++hops) {
        if (const Node* node = dequantizer_of(index, name)) {
            const auto scale = only_value(index.graph(), node->input(1));
            const Tensor* zero = index.graph().constant(node->input(2));
            if (!scale || zero == nullptr) return std::nullopt;
            const auto zero_point = only_value(index.graph(), node->input(2));
            if (!zero_point) return std::nullopt;
            const auto pair = index.producer(node->input(0));
            if (!pair || !index.node(*pair).is("QuantizeLinear")) return std::nullopt;
            quantized = index.node(*pair).input(0);
            const bool is_signed = zero->type() == DataType::int8;
            if (!is_signed && zero->type() != DataType::uint8) return std::nullopt;
            return Quantizer{*scale, *zero_point, is_signed ? -128.0F : 0.0F, is_signed ? 127.0F : 255.0F};
        }
        const auto producer = index.producer(name);
        if (!producer || !is_pass_through(index.graph(), index.node(*producer))) return std::nullopt;
        name = index.node(*producer).input(0);
    }
    return std::nullopt;
}

std::optional<BiasPlace> constant_bias(const Graph& graph, std::size_t node, std::size_t input, std::size_t channels) {
    const std::string& name = graph.nodes[node]->input(input);
    if (name.empty()) {
        return BiasPlace{node, input, "", {static_cast<std::int64_t>(channels)}, std::vector<float>(channels, 0.0F)};
    }
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr || tensor->type() != DataType::float32 || tensor->count() != channels) return std::nullopt;
    // A bias a channel: all its elements on the last axis (Conv: the only one).
    if (tensor->shape().empty() || tensor->shape().back() != static_cast<std::int64_t>(channels)) return std::nullopt;
    return BiasPlace{node, input, name, tensor->shape(), tensor->to_floats()};
}

std::optional<BiasPlace> bias_place(const EdgeIndex& index, std::size_t at, std::size_t channels) {
    const Node& node = index.node(at);
    if (node.is("Conv")) return constant_bias(index.graph(), at, 2, channels);
    if (node.is("Gemm")) {
        if (node.float_or("beta", 1.0F) != 1.0F) return std::nullopt;
        return constant_bias(index.graph(), at, 2, channels);
    }
    const auto reader = index.only_reader(node.output(0));
    if (!reader || !index.node(reader->node).is("Add")) return std::nullopt;
    const std::size_t other = 1 - reader->input;
    if (index.graph().constant(index.node(reader->node).input(other)) == nullptr) return std::nullopt;
    return constant_bias(index.graph(), reader->node, other, channels);
}

std::size_t channels_of(const Node& node, const Shape& weight) {
    std::size_t axis = 0;
    if (node.is("MatMul")) axis = weight.size() - 1;
    if (node.is("Gemm")) axis = node.int_or("transB", 0) != 0 ? 0 : 1;
    return static_cast<std::size_t>(weight.at(axis));
}

} // namespace

void Quantizer::apply(std::span<float> values) const {
    for (float& value : values) {
        const float steps = std::clamp(std::nearbyint(value / scale) + zero_point, lowest, highest);
        value = (steps - zero_point) * scale;
    }
}

std::vector<QuantizedLayer> quantized_layers(const Model& model) {
    const Graph& graph = model.graph;
    const EdgeIndex index(graph);
    std::vector<QuantizedLayer> layers;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = *graph.nodes[i];
        if (!node.is("Conv") && !node.is("Gemm") && !node.is("MatMul")) continue;
        const Node* dequantizer = dequantizer_of(index, node.input(1));
        if (dequantizer == nullptr || index.readers(node.input(1)).size() != 1) continue;
        const Tensor* weight = graph.constant(dequantizer->input(0));
        const Tensor* scales = graph.constant(dequantizer->input(1));
        if (weight == nullptr || scales == nullptr || weight->type() != DataType::int8 || weight->shape().size() < 2 ||
            scales->type() != DataType::float32 || index.readers(dequantizer->input(0)).size() != 1) {
            continue;
        }
        QuantizedLayer layer;
        layer.label = node.label();
        layer.op_type = node.op_type;
        layer.output = node.output(0);
        layer.input_name = node.input(0);
        layer.weight = dequantizer->input(0);
        layer.shape = weight->shape();
        const auto steps = weight->values<std::int8_t>();
        layer.steps.assign(steps.begin(), steps.end());
        layer.scales = scales->to_floats();
        const std::size_t channels = channels_of(node, layer.shape);
        if (layer.scales.size() != 1 && layer.scales.size() != channels) continue;
        layer.limit = 0;
        for (const std::int8_t step : layer.steps)
            layer.limit = std::max(layer.limit, std::abs(static_cast<int>(step)));
        layer.input = quantizer_of(index, node.input(0), layer.quantized);
        layer.bias = bias_place(index, i, channels);
        layers.push_back(std::move(layer));
    }
    return layers;
}

const Tensor& put_bias(Graph& graph, const QuantizedLayer& layer, std::span<const float> values) {
    const std::string name = graph.unique_name(layer.label + "_bias_corrected");
    const auto put = graph.initializers.insert_or_assign(name, Tensor::of_floats(name, layer.bias->shape, values));
    auto& inputs = graph.nodes.at(layer.bias->node)->inputs;
    if (inputs.size() <= layer.bias->input) inputs.resize(layer.bias->input + 1);
    inputs[layer.bias->input] = name;
    return put.first->second;
}

} // namespace lathe
