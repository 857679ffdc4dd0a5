#pragma once

#include "backends/api/backend.hpp"
#include "passes/simplify.hpp"
#include "support/json.hpp"

namespace lathe {

/// Runs models on the backend in float32 with the shapes of the given inputs. The backend must outlive it.
Runner runner_on(const Backend& backend);

/// Simplify with ONNX's shape inference, verified on the CPU backend. The model is unchanged on failure.
Result<SimplifyReport> simplify_model(Model& model, const SimplifyOptions& options);

/// Whether the device is a GPU, for `SimplifyOptions::for_gpus`; it need not be here. Errors: invalid_argument.
Result<bool> simplifies_for_gpus(std::string_view device);

/// {"before_nodes", "after_nodes", "passes": [{"name", "changes"}], ...}: "simplify" in the optimize document.
Json to_json(const SimplifyReport& report);

} // namespace lathe
