#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lathe::cuda {

/// What the management library says of a GPU now. Fields it does not tell are absent.
struct GpuState {
    std::optional<unsigned> sm_clock_mhz, memory_clock_mhz, temperature_celsius, utilization_percent;
    std::optional<double> power_watts;
    std::optional<std::uint64_t> memory_used_bytes, memory_total_bytes;
    std::vector<std::string> slowed_by; ///< "power cap", "thermal", ...: why the clocks are below their most
};
/// Of the CUDA device with this index. Nothing without NVML.
std::optional<GpuState> gpu_state(int device);

} // namespace lathe::cuda
