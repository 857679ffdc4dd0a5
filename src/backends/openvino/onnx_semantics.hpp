#pragma once

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Rewrites, in place, what OpenVINO 2026.4 computes otherwise than ONNX defines it, so that it computes the same:
///   Softmax before opset 13 over several axes       it normalises over the one axis alone
///   AveragePool with ceil_mode, count_include_pad and pads   it counts elements beyond the padding
///   MaxPool, AveragePool with ceil_mode             it has windows that begin behind the input, in the padding
///   LRN with a bias that is no whole number         it rounds the bias down
///   Conv with windows that lie in the padding alone it reads beyond its memory, or forgets the padding
///   Conv 1 x 1 with strides behind a Split          it is refused where what is between works number by number
///   Conv of one channel, one window along a strided axis   it reads other elements
///   PRelu behind a product, one slope a channel     it wants a slope a column
///   AveragePool of a whole image of few channels    of bytes it gives the largest, with AVX2
///   Pad with 0 before MaxPool                       it fuses them, and pads with minus infinity
///   Add, Sub, Mul of int8 and uint8                 it saturates where ONNX wraps around
///   ReduceMax, ReduceMin that are compared or put out   of infinities alone they give the last finite number
///   ReduceMax, ReduceMin, GlobalMaxPool quantised behind   they compare what is cut to bytes already
///   Reduce... that drops its axes                   a Transpose or Reshape behind, of axes of one element, is lost
///   Reduce..., Global...Pool of lines               what is added by channel behind it is another channel's
///   the same of a convolution of bytes              its scales are other channels'
///   the same of bytes that are scaled or shifted by channel   the same
///   Reduce... of bytes over axis 1 of three         it reads other elements where there are several samples
///   Reduce... behind an Unsqueeze                   the new axis is at another place
///   LpNormalization                                 it adds to the norm what is not small beside small ones
///   Einsum that sums over an axis of one operand    as the reductions that it makes of it
///   GatherElements by fewer indices than data       it is refused, along other axes than the node's
///   Slice before GatherElements                     it is left out where it begins at 0
///   LSTM, GRU, RNN of a sequence that others read too   they write over each other's values
///   ConvTranspose with a window smaller than its stride, quantised behind   channels have the first one's bias
///   Pad of bytes by another number than 0           along one axis it pads with 0
///   AveragePool, MaxPool over columns of a product of bytes   it is refused
///   Gather by one index or a table, of a product or convolution of bytes   scales by channel meet other axes
///   Gather of bytes that are multiplied by channel  compiling it, it reads through a null pointer
///   Reshape, Unsqueeze by last axes of one, of a product of bytes   scales by column meet the axis before
///   Concat of quantised int8, or of several zero points   an int8 convolution behind it gives something else
///   AveragePool of bytes that counts its padding    the padding is 0, whatever the zero point
///   Concat of rows that is quantised for a MatMul   it has a zero point a row then, which it refuses
///   QuantizeLinear to int8 in one scale behind a Concat   the same; all that only DequantizeLinear reads becomes uint8
///   If with a branch that is an empty constant      it gives an element
///   Concat, QuantizeLinear, DequantizeLinear, Mul or Add   compiling it, it reads through a null pointer
///   comparisons of BF16                             an infinity is not equal to itself, on some processors
///   Resize with axes that are counted from the end  it refuses them
///   NonMaxSuppression                               it also drops boxes that overlap by just the threshold
/// Names of values stay. Tensors are shared, not copied. Types must be known (shape inference); what has none is left.
void write_onnx_semantics(Graph& graph, std::int64_t opset);

} // namespace lathe::openvino
