#pragma once

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Rewrites, in place, what OpenVINO 2026.4 computes otherwise than ONNX defines it, so that it computes the same:
///   Softmax before opset 13 over several axes       it normalises over the one axis alone
///   AveragePool with ceil_mode, count_include_pad and pads   it counts elements beyond the padding
///   AveragePool of a whole image of few channels    of bytes it gives the largest, with AVX2
///   Pad with 0 before MaxPool                       it fuses them, and pads with minus infinity
///   Add, Sub, Mul of int8 and uint8                 it saturates where ONNX wraps around
///   ReduceMax, ReduceMin that are compared or put out   of infinities alone they give the last finite number
///   Concat of quantised int8, or of several zero points   an int8 convolution behind it gives something else
///   QuantizeLinear to int8 in one scale behind a Concat   the same; all that only DequantizeLinear reads becomes uint8
///   If with a branch that is an empty constant      it gives an element
///   Concat, QuantizeLinear, DequantizeLinear, Mul or Add   compiling it, it reads through a null pointer
///   comparisons of BF16                             an infinity is not equal to itself, on some processors
///   Resize with axes that are counted from the end  it refuses them
///   NonMaxSuppression                               it also drops boxes that overlap by just the threshold
/// Names of values stay. Tensors are shared, not copied. Types must be known (shape inference); what has none is left.
void write_onnx_semantics(Graph& graph, std::int64_t opset);

} // namespace lathe::openvino
