#include "backends/tensorrt/network.hpp"

#include <algorithm>
#include <unordered_map>

namespace lathe::tensorrt {

namespace {

using nvinfer1::LayerType;

/// "fp32", "int8", ...: as engines' layers are described elsewhere.
std::string precision_name(nvinfer1::DataType type) {
    switch (type) {
        case nvinfer1::DataType::kFLOAT: return "fp32";
        case nvinfer1::DataType::kHALF: return "fp16";
        case nvinfer1::DataType::kBF16: return "bf16";
        default: return to_string(data_type(type));
    }
}

double elements(const nvinfer1::Dims& dims) {
    double count = 1;
    for (const std::int64_t size : shape_of(dims))
        count *= static_cast<double>(std::max<std::int64_t>(size, 1));
    return count;
}

std::size_t bytes_of(const nvinfer1::Weights& weights) {
    return weights.values == nullptr ? 0 : byte_size(data_type(weights.type), static_cast<std::size_t>(weights.count));
}

class Summarizer {
public:
    explicit Summarizer(const nvinfer1::INetworkDefinition& network) : network_(network) {}

    NetworkSummary run() {
        for (int i = 0; i < network_.getNbLayers(); ++i) {
            const nvinfer1::ILayer* layer = network_.getLayer(i);
            for (int j = 0; j < layer->getNbOutputs(); ++j)
                producers_[layer->getOutput(j)] = layer;
        }
        for (int i = 0; i < network_.getNbLayers(); ++i)
            add(*network_.getLayer(i));
        return std::move(summary_);
    }

private:
    const nvinfer1::ILayer* producer(const nvinfer1::ITensor* tensor) const {
        const auto found = producers_.find(tensor);
        return found == producers_.end() ? nullptr : found->second;
    }

    /// Moves elements, or chooses among them: a DequantizeLinear before it is as good as one behind it.
    static bool moves(const nvinfer1::ILayer& layer) {
        switch (layer.getType()) {
            case LayerType::kSHUFFLE:
            case LayerType::kIDENTITY:
            case LayerType::kSLICE: return true;
            case LayerType::kPOOLING:
                return static_cast<const nvinfer1::IPoolingLayer&>(layer).getPoolingType() ==
                       nvinfer1::PoolingType::kMAX;
            default: return false;
        }
    }

    /// The tensor comes from a DequantizeLinear, through layers that move elements alone.
    bool is_dequantized(const nvinfer1::ITensor* tensor) const {
        const nvinfer1::ILayer* layer = producer(tensor);
        for (int steps = 0; layer != nullptr && steps < network_.getNbLayers(); ++steps) {
            if (layer->getType() == LayerType::kDEQUANTIZE) return true;
            if (!moves(*layer)) return false;
            layer = producer(layer->getInput(0));
        }
        return false;
    }

    /// The tensor is a constant, perhaps quantised, cast or moved: what weights look like in the network.
    bool is_weight(const nvinfer1::ITensor* tensor) const {
        const nvinfer1::ILayer* layer = producer(tensor);
        for (int steps = 0; layer != nullptr && steps < network_.getNbLayers(); ++steps) {
            const LayerType type = layer->getType();
            if (type == LayerType::kCONSTANT) return true;
            if (!moves(*layer) && type != LayerType::kDEQUANTIZE && type != LayerType::kQUANTIZE &&
                type != LayerType::kCAST)
                return false;
            layer = producer(layer->getInput(0));
        }
        return false;
    }

    void add_weights(const nvinfer1::Weights& weights) {
        if (const std::size_t bytes = bytes_of(weights); bytes > 0)
            summary_.weight_bytes[precision_name(weights.type)] += bytes;
    }

    /// Multiply-accumulates of a product; 0 for other layers. Weights that it holds itself are counted too.
    double products_of(const nvinfer1::ILayer& layer) {
        const nvinfer1::Dims out = layer.getOutput(0)->getDimensions();
        const auto weight_count = [&](const nvinfer1::Weights& own) {
            add_weights(own);
            if (own.count > 0) return static_cast<double>(own.count);
            const nvinfer1::ITensor* given = layer.getNbInputs() > 1 ? layer.getInput(1) : nullptr;
            return given == nullptr ? 0.0 : elements(given->getDimensions());
        };
        switch (layer.getType()) {
            case LayerType::kCONVOLUTION: {
                const auto& conv = static_cast<const nvinfer1::IConvolutionLayer&>(layer);
                add_weights(conv.getBiasWeights());
                const auto maps = static_cast<double>(std::max<std::int64_t>(conv.getNbOutputMaps(), 1));
                return elements(out) * weight_count(conv.getKernelWeights()) / maps;
            }
            case LayerType::kDECONVOLUTION: {
                const auto& conv = static_cast<const nvinfer1::IDeconvolutionLayer&>(layer);
                add_weights(conv.getBiasWeights());
                const Shape in = shape_of(layer.getInput(0)->getDimensions());
                const double channels = in.size() > 1 && in[1] > 0 ? static_cast<double>(in[1]) : 1;
                return elements(layer.getInput(0)->getDimensions()) * weight_count(conv.getKernelWeights()) / channels;
            }
            case LayerType::kMATRIX_MULTIPLY: {
                const auto& product = static_cast<const nvinfer1::IMatrixMultiplyLayer&>(layer);
                const Shape left = shape_of(layer.getInput(0)->getDimensions());
                const bool transposed = product.getOperation(0) == nvinfer1::MatrixOperation::kTRANSPOSE;
                if (left.empty()) return elements(out);
                const std::size_t depth = transposed && left.size() > 1 ? left.size() - 2 : left.size() - 1;
                return elements(out) * static_cast<double>(std::max<std::int64_t>(left[depth], 1));
            }
            default: return 0;
        }
    }

    void add(const nvinfer1::ILayer& layer) {
        LayerInfo info;
        info.name = layer.getName() == nullptr ? "" : layer.getName();
        info.type = layer_type_name(layer.getType());
        info.nodes = {info.name};
        if (layer.getNbOutputs() > 0) info.precision = precision_name(layer.getOutput(0)->getType());
        if (layer.getType() == LayerType::kCONSTANT)
            add_weights(static_cast<const nvinfer1::IConstantLayer&>(layer).getWeights());
        if (const double products = layer.getNbOutputs() > 0 ? products_of(layer) : 0; products > 0) {
            // A third input is a bias.
            const int factors = std::min(layer.getNbInputs(), 2);
            bool integers = factors == 2;
            for (int i = 0; i < factors; ++i)
                integers = integers && is_dequantized(layer.getInput(i));
            if (integers) info.precision = "int8";
            info.macs = products;
            if (layer.getType() == LayerType::kMATRIX_MULTIPLY && !is_weight(layer.getInput(0)) &&
                !is_weight(layer.getInput(1)))
                summary_.between_activations.insert(info.name);
        }
        summary_.layers.push_back(std::move(info));
    }

    const nvinfer1::INetworkDefinition& network_;
    std::unordered_map<const nvinfer1::ITensor*, const nvinfer1::ILayer*> producers_;
    NetworkSummary summary_;
};

} // namespace

NetworkSummary summarize(const nvinfer1::INetworkDefinition& network) { return Summarizer(network).run(); }

} // namespace lathe::tensorrt
