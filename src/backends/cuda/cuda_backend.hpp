#pragma once

#include <memory>

#include "backends/api/backend.hpp"
#include "backends/api/device_copies.hpp"

namespace lathe {

/// Lathe's own engine for NVIDIA GPUs.
std::unique_ptr<Backend> make_cuda_backend();

/// See make_device_copies. Errors: unsupported (no such GPU).
Result<std::unique_ptr<DeviceCopies>> make_cuda_copies(int device);

} // namespace lathe
