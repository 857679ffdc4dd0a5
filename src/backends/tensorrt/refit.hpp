#pragma once

#include "backends/tensorrt/api.hpp"
#include "backends/tensorrt/plan.hpp"

namespace lathe::tensorrt {

/// The plan was built with --strip-weights. A form that does not note its options is asked through TensorRT, where the
/// headers have the question (TensorRT 10.16, TensorRT-RTX 1.3); elsewhere it counts as whole.
bool lacks_weights(const Plan& plan, const nvinfer1::ICudaEngine& engine);

/// Reads the weights from the ONNX that the plan was built from. No context may exist yet, nor be made after an error.
/// Errors: those of `onnx_for_refit`; unsupported, naming the weights that are missing or were refused.
Result<void> give_weights_back(const Plan& plan, nvinfer1::ICudaEngine& engine);

} // namespace lathe::tensorrt
