#pragma once

#include <memory>

#include "backends/api/backend.hpp"

namespace lathe {

/// TensorRT or TensorRT-RTX, whichever's headers this was compiled with.
std::unique_ptr<Backend> make_tensorrt_backend();

} // namespace lathe
