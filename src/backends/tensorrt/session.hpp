#pragma once

#include <memory>

#include "backends/tensorrt/plan.hpp"

namespace lathe::tensorrt {

/// A stripped plan is given its weights back from its graph. Code inside a version-compatible plan (TensorRT's lean
/// runtime) is run: load engines that you trust.
/// Errors: unsupported (no GPU that this TensorRT runs on; a plan of another one; weights that cannot be given back),
/// with TensorRT's own words; those of `onnx_for_refit`.
Result<std::shared_ptr<const LoadedPlan>> load_plan(std::shared_ptr<const Plan> plan);

/// Layers as the builder fused them, with the precision each computes in, from TensorRT's inspector. Times are 0.
/// Errors: unsupported (it tells none).
Result<std::vector<LayerInfo>> inspected_layers(const LoadedPlan& loaded);

/// Errors: unsupported (outputs whose size depends on data), out_of_memory.
Result<std::unique_ptr<BackendSession>> open_session(std::shared_ptr<const LoadedPlan> loaded);

} // namespace lathe::tensorrt
