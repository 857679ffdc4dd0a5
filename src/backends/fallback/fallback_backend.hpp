#pragma once

#include <memory>

#include "backends/api/backend.hpp"

namespace lathe {

/// The backend for a GPU, which with CompileOptions::allow_fallback also takes models that it can run only in part: the
/// rest runs by `host`, which must outlive it. Such an engine takes one shape an input. Without the option, and where
/// the GPU takes the whole model, it is `gpu` unchanged.
std::unique_ptr<Backend> make_fallback_backend(std::unique_ptr<Backend> gpu, const Backend& host);

} // namespace lathe
