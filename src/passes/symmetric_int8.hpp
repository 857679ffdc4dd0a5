#pragma once

#include <cstddef>
#include <string>

#include "graph/graph.hpp"

namespace lathe {

/// What `write_symmetric_int8` changed.
struct SymmetricInt8 {
    std::size_t shifted = 0;    ///< uint8 tensors that are int8 now with the same steps: nothing else changed
    std::size_t symmetric = 0;  ///< activations whose steps changed
    std::size_t weights = 0;    ///< weights that were rounded anew
    std::size_t floats = 0;     ///< quantised activations that are floats now (DynamicQuantizeLinear)
    std::size_t arithmetic = 0; ///< QuantizeLinear and DequantizeLinear written as what they compute
    std::size_t folded = 0;     ///< biases and other constants that are floats now

    bool changed() const { return shifted + symmetric + weights + floats + arithmetic + folded != 0; }
    /// Of what is computed otherwise than the model says, a sentence; "" if nothing is.
    std::string notice() const;
};

/// Where zero points other than 0 may stay.
enum class ZeroPoints {
    none,
    /// What a convolution or matrix product gives, a skip and an activation between or not, and only convolutions
    /// without padding, depthwise ones, matrix products and other skips read.
    between_products,
};

/// Rewrites what other tools quantised (uint8, zero points, integer biases, DynamicQuantizeLinear with MatMulInteger
/// and ConvInteger) for int8 without zero points, which is what kernels for NVIDIA's tensor cores multiply:
///   activations   uint8 with zero point 128 is int8; else the symmetric scale of the same range, behind a Relu where
///                 that range starts at zero (tools leave the Relu to the saturation)
///   weights       the same integers less their zero point; a channel that does not fit is rounded anew
///   biases        floats, and what else is constant and no filter
///   dynamic       the product in floats with the dequantised weights
///   others        arithmetic: read before they are dequantised, put in or out in integers, a scale for each channel
/// The main graph's nodes; types and shapes of what is added are not in `value_infos`.
SymmetricInt8 write_symmetric_int8(Graph& graph, std::int64_t opset, ZeroPoints kept);

/// Takes the rounding out of a quantised network: constants become floats, activations are not quantised, and what is
/// left to the saturation of a range that starts at zero is a Clip. How many QuantizeLinear stay (those that are read
/// as integers, and those whose DequantizeLinear has another scale). As above, the main graph's nodes.
std::size_t write_float_form(Graph& graph, std::int64_t opset);

} // namespace lathe
