#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

struct RotaryParams {
    const void *x, *cosines, *sines;
    void* y;
    std::int32_t x_type, table_type, y_type, interleaved;
    std::int64_t offset, batch, head, row;                  ///< of x, in elements
    std::int64_t table_batch, table_head, table_row, width; ///< of cosines and sines
    std::int64_t batches, heads, rows, depth;
    std::int64_t turned; ///< the first numbers of a row, an even count; the others stay
};
/// A thread a pair of numbers, any sizes and types.
cudaError_t launch_rotary_general(const RotaryParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
