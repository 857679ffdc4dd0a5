#pragma once

#include <memory>

#include "backends/api/device_copies.hpp"

namespace lathe::cuda {

/// See lathe::make_device_copies. Errors: unsupported (no such GPU).
Result<std::unique_ptr<DeviceCopies>> make_copies(int device);

} // namespace lathe::cuda
