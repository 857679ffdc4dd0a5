#pragma once

#include <string>
#include <vector>

#include "backends/api/backend.hpp"

namespace lathe::tensorrt {

/// A model whose graph says the precision of everything, as a strongly typed network needs it.
struct PreparedModel {
    Model model;
    std::vector<std::string> notes; ///< what stays float32 although something else was asked
};

/// fp32 and tf32: the graph as it is. fp16 and bf16: the float part in that precision (passes/autocast.hpp), int8 where
/// the graph has Q/DQ. int8: the same with fp16; the graph must have Q/DQ.
/// Errors: invalid_argument (int8 without Q/DQ), unsupported.
Result<PreparedModel> prepare_precision(const Model& model, const CompileOptions& options);

} // namespace lathe::tensorrt
