#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Conv, ConvTranspose, pooling and the activations know bfloat16 from this opset on.
inline constexpr std::int64_t bfloat16_opset = 22;

/// What the float32 tensors of one node become.
enum class FloatForm {
    full,      ///< float32
    half,      ///< the 16-bit type
    as_written ///< read in the form that their producer writes (QuantizeLinear, Cast to an integer, Shape)
};

struct CastRequest {
    DataType half = DataType::float16; ///< or bfloat16
    std::vector<FloatForm> forms;      ///< one a node of the top graph
    /// Whether a `half` node reads its float32 input of this index in 16 bits (Resize's scales stay float32).
    std::function<bool(const Node&, std::size_t)> follows;
    /// Type of the model's floating-point inputs and outputs: float32 keeps them, else `half`.
    DataType io_type = DataType::float32;
};

struct CastModel {
    Model model;
    std::size_t casts = 0;     ///< Cast nodes that were added
    std::size_t constants = 0; ///< constants that became 16 bits wide
    /// Of these, those whose masks (support/score_mask.hpp) were clamped to what the 16-bit type holds.
    std::vector<std::string> clamped;
};

/// Writes a choice of types into a graph. A value keeps its name in FP32; its 16-bit form is called NAME_fp16 (or
/// NAME_bf16), and a Cast joins the two where both are needed:
///
///     %y = Conv(%x, %w)        %x_fp16 = Cast(%x) {to = 10}
///     %z = Exp(%y)             %y_fp16 = Conv(%x_fp16, %w_fp16)
///                         ->   %y = Cast(%y_fp16) {to = 1}
///                              %z = Exp(%y)                       # stays FP32
///
/// A Cast in `half` gives that type, a DequantizeLinear too (by the output_dtype of opset 23). Inputs and outputs of
/// the model keep name and type unless io_type asks for another; then it is the 16-bit form that has the name. Bodies
/// of control-flow nodes are left alone. Constants are expected as initializers, types as inferred. Errors:
/// unsupported, where the body of a control-flow node reads an input whose type changes.
Result<CastModel> write_casts(Model model, const CastRequest& request);

/// float32, as far as is known.
bool is_float32(const Graph& graph, const std::string& value);

} // namespace lathe
