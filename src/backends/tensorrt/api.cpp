#include "backends/tensorrt/api.hpp"

#include <algorithm>
#include <array>

namespace lathe::tensorrt {

DataType data_type(nvinfer1::DataType type) {
    switch (type) {
        case nvinfer1::DataType::kFLOAT: return DataType::float32;
        case nvinfer1::DataType::kHALF: return DataType::float16;
        case nvinfer1::DataType::kBF16: return DataType::bfloat16;
        case nvinfer1::DataType::kINT8: return DataType::int8;
        case nvinfer1::DataType::kUINT8: return DataType::uint8;
        case nvinfer1::DataType::kINT32: return DataType::int32;
        case nvinfer1::DataType::kINT64: return DataType::int64;
        case nvinfer1::DataType::kBOOL: return DataType::boolean;
        case nvinfer1::DataType::kFP8: return DataType::float8e4m3fn;
        case nvinfer1::DataType::kINT4: return DataType::int4;
        default: return DataType::undefined;
    }
}

std::string layer_type_name(nvinfer1::LayerType type) {
    // In the order of the enumeration, which only grows at its end.
    static constexpr std::array names{"Convolution",
                                      "Cast",
                                      "Activation",
                                      "Pooling",
                                      "LRN",
                                      "Scale",
                                      "SoftMax",
                                      "Deconvolution",
                                      "Concatenation",
                                      "ElementWise",
                                      "Plugin",
                                      "Unary",
                                      "Padding",
                                      "Shuffle",
                                      "Reduce",
                                      "TopK",
                                      "Gather",
                                      "MatrixMultiply",
                                      "RaggedSoftMax",
                                      "Constant",
                                      "Identity",
                                      "PluginV2",
                                      "Slice",
                                      "Shape",
                                      "ParametricReLU",
                                      "Resize",
                                      "TripLimit",
                                      "Recurrence",
                                      "Iterator",
                                      "LoopOutput",
                                      "Select",
                                      "Fill",
                                      "Quantize",
                                      "Dequantize",
                                      "Condition",
                                      "ConditionalInput",
                                      "ConditionalOutput",
                                      "Scatter",
                                      "Einsum",
                                      "Assertion",
                                      "OneHot",
                                      "NonZero",
                                      "GridSample",
                                      "NMS",
                                      "ReverseSequence",
                                      "Normalization",
                                      "PluginV3",
                                      "Squeeze",
                                      "Unsqueeze",
                                      "Cumulative",
                                      "DynamicQuantize",
                                      "AttentionInput",
                                      "AttentionOutput"};
    const auto index = static_cast<std::size_t>(type);
    return index < names.size() ? names[index] : "layer type " + std::to_string(index);
}

Shape shape_of(const nvinfer1::Dims& dims) {
    if (dims.nbDims < 0) return {};
    return {dims.d, dims.d + dims.nbDims};
}

nvinfer1::Dims dims_of(const Shape& shape) {
    nvinfer1::Dims dims{};
    dims.nbDims = static_cast<std::int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), dims.d);
    return dims;
}

} // namespace lathe::tensorrt
