#pragma once

#include <string>
#include <unordered_map>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// The inputs by which a network in difference form is given values of the float network: value to input name.
using References = std::unordered_map<std::string, std::string>;

/// A piece of a float network in difference form. A Conv, ConvTranspose, Gemm or MatMul with a constant weight W is
/// linear, so that of an input that differs a little from what the float network has there, x instead of r, only the
/// difference needs to be multiplied, and that, being small already, in BF16:
///
///     y = Conv(x, W) + b        =        (Conv(r, W) + b)  +  Conv_bf16(x - r, W)
///
/// The first part is what the float network gives, the reference of y. BF16 rounds the difference and W by at most one
/// part in 256 each, and what it adds to the difference behind ResNet-50 is 0.004 % of its power; rounding x itself
/// would add more noise than most layers in INT8 do. All other operations stay as they are. Done where the layer
/// multiplies so much for what it reads and writes that it pays on a processor that multiplies BF16; layers whose
/// shapes are not known stay too.
///
/// `whole` is the float network (fresh input names avoid its values); `references` gains those that the result reads,
/// one input name a value, however often this is called. Errors: what writing the Casts gives.
Result<Model> in_differences(const Model& piece, const Graph& whole, References& references);

} // namespace lathe
