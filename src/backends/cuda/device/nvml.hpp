#pragma once

#include <optional>
#include <vector>

#include "backends/api/backend.hpp"

namespace lathe::cuda {

/// What the management library says of the CUDA device with this index. Nothing without NVML.
std::optional<DeviceSample> sample_device(int device);

/// Processors of the NUMA node that the GPU hangs on, those of them that this process may use. Empty where the kernel
/// does not tell.
std::vector<int> cpus_near(int device);

} // namespace lathe::cuda
