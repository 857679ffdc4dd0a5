#pragma once

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/tuning/timing_cache.hpp"
#include "lathe/engine_types.hpp"

namespace lathe::cuda {

/// What the GPU reaches: from the cache, or measured within a second or two and stored there. Rates of products are
/// those of the fastest kernel that any provider has for one large product on random numbers, since a datasheet's rate
/// is one that no kernel reaches. What cannot be measured (too little memory) stays unknown.
Result<MachineLimits> machine_limits(const Device& device, TimingCache& cache);

} // namespace lathe::cuda
