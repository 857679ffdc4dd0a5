#include "onnx/summary.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "graph/subgraphs.hpp"
#include "onnx/macs.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

std::int64_t plus(std::int64_t a, std::int64_t b) {
    return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max() : a + b;
}

std::string precision_name(DataType type) {
    switch (type) {
        case DataType::float32: return "fp32";
        case DataType::float16: return "fp16";
        case DataType::bfloat16: return "bf16";
        case DataType::float64: return "fp64";
        case DataType::float8e4m3fn:
        case DataType::float8e4m3fnuz:
        case DataType::float8e5m2:
        case DataType::float8e5m2fnuz: return "fp8";
        case DataType::float4e2m1: return "fp4";
        case DataType::undefined: return "";
        default: return to_string(type);
    }
}

/// What integers (or narrow floats) of this type compute in, signed or not.
std::string quantized_name(DataType type) {
    switch (type) {
        case DataType::int8:
        case DataType::uint8: return "int8";
        case DataType::int4:
        case DataType::uint4: return "int4";
        case DataType::int2:
        case DataType::uint2: return "int2";
        case DataType::int16:
        case DataType::uint16: return "int16";
        default: return precision_name(type);
    }
}

/// Ops that only rename or move elements, so that what is quantised before them is quantised after.
bool moves_only(const Node& node) {
    static constexpr const char* types[] = {"Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze"};
    return std::any_of(std::begin(types), std::end(types), [&](const char* type) { return node.is(type); });
}

/// A graph with those around it, innermost last.
class Scope {
public:
    Scope(const Graph& graph, const Scope* outer) : graph_(graph), outer_(outer) {
        for (const auto& node : graph.nodes) {
            for (const std::string& output : node->outputs) {
                if (!output.empty()) producers_.emplace(output, node.get());
            }
        }
    }
    std::optional<ValueInfo> info(const std::string& value) const {
        const Scope* scope = this;
        for (; scope != nullptr; scope = scope->outer_) {
            if (auto found = scope->graph_.info(value)) return found;
        }
        return std::nullopt;
    }
    const Node* producer(const std::string& value) const {
        for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
            if (const auto found = scope->producers_.find(value); found != scope->producers_.end())
                return found->second;
            if (scope->graph_.find_input(value) != nullptr) return nullptr;
        }
        return nullptr;
    }
    const Tensor* constant(const std::string& value) const {
        for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
            if (const Tensor* found = scope->graph_.initializer(value)) return found;
        }
        const Node* node = producer(value);
        const Attribute* attribute = node != nullptr && node->is("Constant") ? node->attribute("value") : nullptr;
        return attribute != nullptr ? std::get_if<Tensor>(&attribute->value) : nullptr;
    }
    /// The DequantizeLinear a value comes through, nodes that only move elements aside; nullptr if none.
    const Node* dequantizer(const std::string& value) const {
        const Node* node = producer(value);
        for (int steps = 0; node != nullptr && steps < 16; ++steps) {
            if (node->op_type == "DequantizeLinear") return node;
            if (!moves_only(*node)) return nullptr;
            node = producer(node->input(0));
        }
        return nullptr;
    }

private:
    const Graph& graph_;
    const Scope* outer_;
    std::unordered_map<std::string, const Node*> producers_;
};

std::string precision_of(const Node& node, const Scope& scope) {
    const auto type_of = [&](const std::string& value) {
        const auto info = scope.info(value);
        return info ? info->type : DataType::undefined;
    };
    if (node.op_type == "QuantizeLinear") return precision_name(type_of(node.output(0)));
    if (node.op_type == "DequantizeLinear") return precision_name(type_of(node.input(0)));
    if (node.op_type == "QLinearConv" || node.op_type == "QLinearMatMul" || node.op_type == "ConvInteger" ||
        node.op_type == "MatMulInteger") {
        return quantized_name(type_of(node.input(0)));
    }
    const DataType computed = type_of(node.output(0));
    // Quantised if all that it reads, biases aside, comes through DequantizeLinear.
    const bool multiplies = node.is("Conv") || node.is("ConvTranspose") || node.is("Gemm") || node.is("MatMul");
    std::size_t read = 0;
    std::size_t dequantized = 0;
    DataType source = DataType::undefined;
    bool weight_only = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].empty() || (multiplies && i >= 2)) continue;
        if (!is_floating(type_of(node.inputs[i]))) continue;
        if (!multiplies && scope.constant(node.inputs[i]) != nullptr) continue;
        ++read;
        const Node* from = scope.dequantizer(node.inputs[i]);
        if (from == nullptr) continue;
        ++dequantized;
        weight_only = multiplies && i == 1 && dequantized == 1;
        source = type_of(from->input(0));
    }
    if (read > 0 && read == dequantized) return quantized_name(source);
    if (weight_only) return precision_name(computed) + " (weights " + quantized_name(source) + ")";
    return precision_name(computed);
}

bool is_weight(const Tensor& tensor) {
    return tensor.type() != DataType::int64 && tensor.type() != DataType::boolean && tensor.type() != DataType::string;
}

std::int64_t bytes_of(const std::optional<ValueInfo>& info, bool& assumed) {
    auto shape = info ? info->shape() : std::nullopt;
    if (!shape) return 0;
    for (std::int64_t& dim : *shape) {
        if (dim < 0) {
            dim = 1;
            assumed = true;
        }
    }
    const std::int64_t count = element_count(*shape);
    if (count < 0 || count > (std::int64_t{1} << 48)) return 0;
    return static_cast<std::int64_t>(byte_size(info->type, static_cast<std::size_t>(count)));
}

class Summarizer {
public:
    explicit Summarizer(ModelSummary& summary) : summary_(summary) {}

    void graph(const Graph& graph, const Scope* outer, const std::string& prefix) {
        const Scope scope(graph, outer);
        for (const auto& [name, tensor] : graph.initializers)
            constant(tensor);
        for (const auto& node : graph.nodes)
            this->node(*node, scope, prefix);
    }

private:
    void constant(const Tensor& tensor) {
        if (is_weight(tensor)) summary_.parameters += static_cast<std::int64_t>(tensor.count());
        summary_.weight_bytes += static_cast<std::int64_t>(tensor.bytes().size());
    }

    void node(const Node& node, const Scope& scope, const std::string& prefix) {
        LayerSummary layer;
        layer.name = prefix + node.label();
        layer.op_type = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
        ++summary_.nodes;
        ++summary_.operators[layer.op_type];
        const auto known = [&](const std::string& value) {
            auto info = scope.info(value).value_or(ValueInfo{});
            info.name = value;
            return info;
        };
        for (const std::string& input : node.inputs)
            layer.inputs.push_back(known(input));
        for (const std::string& output : node.outputs)
            layer.outputs.push_back(known(output));
        for (const std::string& input : node.inputs) {
            const Tensor* tensor = input.empty() ? nullptr : scope.constant(input);
            if (const Node* from = scope.dequantizer(input); tensor == nullptr && from != nullptr) {
                tensor = scope.constant(from->input(0));
            }
            if (tensor != nullptr && is_weight(*tensor)) layer.parameters += static_cast<std::int64_t>(tensor->count());
        }
        const MacCount count = count_macs(node, [&](const std::string& value) { return scope.info(value); });
        layer.macs = count.macs;
        layer.precision = precision_of(node, scope);
        summary_.macs = plus(summary_.macs, count.macs);
        summary_.assumed_dimensions = summary_.assumed_dimensions || count.assumed_dimensions;
        if (count.multiplies) ++summary_.precisions[layer.precision];
        if (!count.known) ++summary_.unknown_layers;
        for (const Attribute& attribute : node.attributes) {
            if (const auto* tensor = std::get_if<Tensor>(&attribute.value)) constant(*tensor);
        }
        const std::string inner = layer.name + "/";
        summary_.layers.push_back(std::move(layer));
        for_each_subgraph(node, [&](const Graph& body) { graph(body, &scope, inner); });
    }

    ModelSummary& summary_;
};

/// Bytes of computed values: all of them, and the most alive at once when nodes run in file order.
void count_activations(const Graph& graph, ModelSummary& summary) {
    const Uses uses(graph);
    std::unordered_map<const Node*, std::size_t> position;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        position[graph.nodes[i].get()] = i;
    std::vector<std::int64_t> freed(graph.nodes.size() + 1, 0); // after node i
    std::int64_t alive = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = *graph.nodes[i];
        for (const std::string& output : node.outputs) {
            if (output.empty() || node.is("Constant")) continue;
            const std::int64_t size = bytes_of(graph.info(output), summary.assumed_dimensions);
            summary.activation_bytes = plus(summary.activation_bytes, size);
            alive = plus(alive, size);
            std::size_t last = i;
            for (const Node* reader : uses.consumers(output))
                last = std::max(last, position[reader]);
            if (!graph.is_output(output)) freed[last] = plus(freed[last], size);
        }
        summary.peak_activation_bytes = std::max(summary.peak_activation_bytes, alive);
        alive -= freed[i];
    }
}

} // namespace

ModelSummary summarize(const Model& original) {
    Model model = original;
    if (!infer_shapes(model)) model = original; // what the file says is still worth showing
    ModelSummary summary;
    summary.name = model.graph.name;
    summary.ir_version = model.ir_version;
    summary.opsets = model.opsets;
    summary.producer = model.producer_name;
    if (!model.producer_version.empty()) summary.producer += " " + model.producer_version;
    for (const ValueInfo& input : model.graph.inputs) {
        if (!model.graph.initializers.contains(input.name)) summary.inputs.push_back(input);
    }
    summary.outputs = model.graph.outputs;
    Summarizer(summary).graph(model.graph, nullptr, "");
    count_activations(model.graph, summary);
    return summary;
}

} // namespace lathe
