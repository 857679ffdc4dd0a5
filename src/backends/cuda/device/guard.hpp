#pragma once

#include <cstddef>
#include <string>

#include "backends/cuda/device/handles.hpp"

namespace lathe::cuda {

/// Memory that is filled before a kernel runs and must be as it was afterwards: NaN in every float.
inline constexpr int poison = 0xFF;
/// So much of it lies behind what a kernel may write.
inline constexpr std::size_t guard_bytes = std::size_t{64} << 10;

/// How many of the guard's bytes (on the device, `guard_bytes` of them) are poison no longer. Waits for the stream.
Result<std::size_t> bytes_written(const std::byte* guard, const Stream& stream);

} // namespace lathe::cuda
