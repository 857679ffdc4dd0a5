#pragma once

// TensorRT's headers are included by the files of this folder only, through this one. Their classes are abstract and
// their own functions inline, so nothing is linked: the few C entry points are looked up at run time (library.hpp).
// The inline createInferBuilder and its like must not be called, since they would need the library when linking.

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <string>

#include "lathe/types.hpp"

namespace lathe::tensorrt {

#ifdef TRT_MAJOR_RTX
inline constexpr bool is_rtx = true;
#else
inline constexpr bool is_rtx = false;
#endif
inline constexpr const char* product_name = is_rtx ? "TensorRT-RTX" : "TensorRT";
/// Since 11 networks are always strongly typed; 10 is asked for it.
inline constexpr bool always_strongly_typed = is_rtx || NV_TENSORRT_MAJOR >= 11;

/// `undefined` for types that Lathe lacks.
DataType data_type(nvinfer1::DataType type);
/// "Convolution", "Quantize", ...: TensorRT's name of a layer's kind.
std::string layer_type_name(nvinfer1::LayerType type);
/// Open sizes are -1.
Shape shape_of(const nvinfer1::Dims& dims);
nvinfer1::Dims dims_of(const Shape& shape);

} // namespace lathe::tensorrt
