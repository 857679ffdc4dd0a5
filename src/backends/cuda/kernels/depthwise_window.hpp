#pragma once
// What the parts of the depthwise kernel for any window share: how its work is cut.

#include "backends/cuda/kernels/depthwise.hpp"

namespace lathe::cuda::kernels::depthwise {

inline constexpr int threads = 128, general_columns = 4;

struct Work {
    std::int32_t groups;     ///< of 4 * lanes channels
    std::int32_t lanes_log2; ///< threads with neighbouring channels
    std::int32_t across;     ///< runs of columns
    std::int32_t strips;     ///< across * rows * images
};

/// Taps of a row that are taken at once: 3, 5 or 7; 0: one by one, for a dilated window, another stride than 1 or 2, or
/// fewer than 3 taps.
int taps_at_once(const DepthwiseParams& p);

using Launch = cudaError_t(const DepthwiseParams& p, const Work& t, int columns, std::size_t shared,
                           cudaStream_t stream, bool programmatic);
/// One translation unit a type, so that they compile side by side.
Launch launch_f32, launch_f16, launch_bf16, launch_s8;

} // namespace lathe::cuda::kernels::depthwise
