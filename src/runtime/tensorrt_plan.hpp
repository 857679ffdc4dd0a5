#pragma once

#include "backends/api/tensorrt_form.hpp"
#include "lathe/result.hpp"
#include "runtime/engine_file.hpp"

namespace lathe {

/// The TensorRT engine in an engine file for --device tensorrt; views the file's bytes. No backend is needed.
/// Errors: as `read_tensorrt_form`; an engine for another device is corrupt to it.
Result<TensorRtFormAndPlan> tensorrt_form_in(const EngineContents& contents);

} // namespace lathe
