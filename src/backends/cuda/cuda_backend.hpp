#pragma once

#include <memory>

#include "backends/api/backend.hpp"

namespace lathe {

/// Lathe's own engine for NVIDIA GPUs.
std::unique_ptr<Backend> make_cuda_backend();

} // namespace lathe
