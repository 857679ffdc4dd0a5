#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"
#include "support/half.hpp"
#include "support/log.hpp"

namespace lathe {
namespace {

template <class T, class ToFloat>
void count(const Tensor& tensor, NonfiniteTensor& found, ToFloat to_float) {
    for (const T value : tensor.values<T>()) {
        const auto number = to_float(value);
        if (std::isfinite(number)) {
            found.mask = found.mask && number == 0;
            continue;
        }
        ++(std::isnan(number) ? found.nans : found.infinities);
    }
}

void inspect(const std::string& name, const Tensor& tensor, std::vector<NonfiniteTensor>& result) {
    NonfiniteTensor found{name, 0, 0, true};
    switch (tensor.type()) {
        case DataType::float32: count<float>(tensor, found, [](float v) { return v; }); break;
        case DataType::float64: count<double>(tensor, found, [](double v) { return v; }); break;
        case DataType::float16: count<std::uint16_t>(tensor, found, float_from_half); break;
        case DataType::bfloat16: count<std::uint16_t>(tensor, found, float_from_bfloat16); break;
        default: return;
    }
    found.mask = found.mask && found.nans == 0;
    if (found.nans + found.infinities > 0) result.push_back(std::move(found));
}

/// Whether a sum is one of attention's scores, before more is added or chosen.
bool are_scores(const Uses& uses, const std::string& value, int steps = 4) {
    static const std::unordered_set<std::string_view> between{"Add", "Sub", "Where", "Reshape", "Max", "Cast"};
    return std::ranges::any_of(uses.consumers(value), [&](const Node* reader) {
        return reader->is("Softmax") ||
               (steps > 0 && between.contains(reader->op_type) && are_scores(uses, reader->output(0), steps - 1));
    });
}

/// Whether a value is what a layer, a normalisation, a factor or a bias makes numbers of, moved or not.
bool is_weight(const Uses& uses, const std::string& value, int steps = 8) {
    static const std::unordered_set<std::string_view> computing{"Conv",
                                                                "ConvTranspose",
                                                                "MatMul",
                                                                "Gemm",
                                                                "Einsum",
                                                                "LSTM",
                                                                "GRU",
                                                                "RNN",
                                                                "Mul",
                                                                "Div",
                                                                "BatchNormalization",
                                                                "LayerNormalization",
                                                                "InstanceNormalization",
                                                                "GroupNormalization",
                                                                "RMSNormalization"};
    static const std::unordered_set<std::string_view> moving{"Identity",  "Transpose", "Reshape", "Squeeze",
                                                             "Unsqueeze", "Slice",     "Gather",  "Concat"};
    return std::ranges::any_of(uses.consumers(value), [&](const Node* reader) {
        if ((reader->is("Add") || reader->is("Sub")) && !are_scores(uses, reader->output(0))) return true;
        if (computing.contains(reader->op_type) || !reader->domain.empty() || has_subgraph(*reader)) return true;
        return steps > 0 && moving.contains(reader->op_type) && is_weight(uses, reader->output(0), steps - 1);
    });
}

void inspect(const Graph& graph, std::vector<NonfiniteTensor>& result) {
    const std::size_t before = result.size();
    for (const auto& [name, tensor] : graph.initializers)
        inspect(name, tensor, result);
    for (const auto& node : graph.nodes) {
        for (const Attribute& attribute : node->attributes) {
            const auto* tensor = std::get_if<Tensor>(&attribute.value);
            if (tensor != nullptr) inspect(node->output(0), *tensor, result);
        }
    }
    if (result.size() > before) {
        // Masks beside finite numbers: positions by their distance, and logarithms of distances that are cast or
        // chosen.
        const Uses uses(graph);
        for (std::size_t i = before; i < result.size(); ++i)
            result[i].mask = result[i].mask || (result[i].nans == 0 && !is_weight(uses, result[i].name));
    }
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](const Graph& inner) { inspect(inner, result); });
}

} // namespace

std::vector<NonfiniteTensor> find_nonfinite(const Model& model) {
    std::vector<NonfiniteTensor> result;
    inspect(model.graph, result);
    return result;
}

void warn_about_nonfinite(const Model& model) {
    auto broken = find_nonfinite(model);
    std::erase_if(broken, [](const NonfiniteTensor& tensor) { return tensor.mask; });
    constexpr std::size_t most = 5;
    for (std::size_t i = 0; i < broken.size() && i < most; ++i) {
        log(LogLevel::warning, "weights of " + broken[i].name + " hold " + std::to_string(broken[i].nans) +
                                   " NaN and " + std::to_string(broken[i].infinities) + " infinities");
    }
    if (broken.size() > most)
        log(LogLevel::warning, "so do " + std::to_string(broken.size() - most) + " other tensors");
}

} // namespace lathe
