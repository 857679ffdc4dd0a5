#pragma once

namespace lathe {

/// Tells ONNX's shape inference of ONNX Runtime's fused operators: element types and ranks of what they give, and the
/// sizes that weights tell. Once a process; for several threads.
/// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
void know_onnxruntime_operators();

} // namespace lathe
