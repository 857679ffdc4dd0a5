#pragma once

#include <string>

#include "compare/compare.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Something else than our backends that computes ONNX models, in a Python process of its own (python/lathe_worker).
struct Interpreter {
    ModelRunner run;   ///< ends the process with its last copy; errors: unsupported (an operator or type that it lacks)
    std::string title; ///< "ONNX Runtime 1.32.0, each node as written"
    Json libraries;    ///< name → version
};

/// `name`: "onnxruntime" (ONNX Runtime on the CPU without graph optimisations), or "reference" (ONNX's own reference
/// of its operators, slow). `progress` is asked while it computes, and outlives it.
/// Errors: invalid_argument (another name), not_found (no Python), unsupported (the package is not installed there),
/// each with what to do.
Result<Interpreter> start_interpreter(const std::string& name, Progress& progress);

} // namespace lathe
