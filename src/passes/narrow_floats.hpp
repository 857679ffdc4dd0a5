#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// The first opset whose QuantizeLinear and DequantizeLinear take float32 scales beside other floats.
inline constexpr std::int64_t typed_quantization_opset = 23;
/// QuantizeLinear or DequantizeLinear in the top graph.
bool has_quantization(const Graph& graph);

struct NarrowReport {
    std::size_t low_nodes = 0; ///< how many nodes compute in the low precision
    std::size_t casts = 0;     ///< Cast nodes that were added
    /// Operations that read or give float32 and stay so, with how often.
    std::map<std::string, std::size_t> kept_ops;
    /// Nodes that would otherwise compute in the low precision, with the constant that does not fit it.
    std::vector<std::string> kept_for_range;
    /// Constants whose masks (support/score_mask.hpp) were clamped to what the low precision holds.
    std::vector<std::string> clamped;
};

/// Writes a float precision into the graph by what each operation does, without measurements, for runtimes that compute
/// what the graph says (strongly typed TensorRT):
///
///     x (float32) ─▶ Conv ─▶ Softmax ─▶ y        x ─▶ Cast ─▶ Conv (float16) ─▶ Cast ─▶ Softmax (float32) ─▶ y
///
/// Products (Conv, Gemm, MatMul, ...) compute in `low` (float16 or bfloat16) with their weights stored so; pointwise
/// and moving operations follow what they read; sums, powers, exponentials and normalisations stay float32, as does a
/// node with a constant beyond float16's 65,504 or a scalar that float16 would make 0. Inputs and outputs of the model
/// keep their types. Masks of attention scores (-3.4e38) that are added, selected or moved alone are clamped instead.
/// QuantizeLinear and DequantizeLinear keep float32 scales and gain the `output_dtype` of opset 23.
/// Every value's type must be known (infer_shapes). Subgraphs stay float32.
/// Errors: invalid_argument (another type), unsupported (a type that is not known; Q/DQ below opset 23).
Result<NarrowReport> narrow_floats(Model& model, DataType low);

} // namespace lathe
