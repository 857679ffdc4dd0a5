#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "passes/narrow_floats.hpp"

namespace lathe {

/// A model whose graph says the precision of everything, as strongly typed runtimes (TensorRT) need it.
struct TypedModel {
    Model model;
    NarrowReport report;            ///< empty for fp32 and tf32
    std::vector<std::string> notes; ///< what stays float32 although something else was asked, for people
};

/// fp32 and tf32: the graph as it is. fp16 and bf16: the float part in that precision (passes/narrow_floats.hpp), with
/// BatchNormalization folded into its convolution first, and int8 where the graph has Q/DQ. int8: the same with fp16;
/// the graph must have Q/DQ. A graph with Q/DQ is converted to opset 23, whose scales need not be of the data's type,
/// another in bf16 to 22, which first has convolutions in it.
/// Errors: invalid_argument (int8 without Q/DQ), unsupported (what stands in the way, and what to do).
Result<TypedModel> write_precision(const Model& model, Precision precision);

} // namespace lathe
