#pragma once

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/plan/recurrent_kind.hpp"

namespace lathe::cuda::kernels {

/// plan/ir.hpp's Recurrent. The recurrence has type `weight_type` (f32, f16, bf16), the state is kept in f32.
struct RecurrentParams {
    const void *gates, *recurrence;
    const float* bias;
    const void *initial, *initial_cell; ///< null: zeros
    const std::int32_t* lengths;        ///< null: all steps
    void *y, *last, *last_cell;
    std::int32_t gates_type, weight_type, initial_type, initial_cell_type, y_type, last_type, last_cell_type;
    Cell cell;
    std::int32_t reverse, linear_before_reset;
    std::int64_t steps, batch, width, directions;
};
/// Whether the state of a sample fits a block's shared memory.
bool recurrent_takes(const RecurrentParams& params);
/// A block a sample and direction walks over all steps.
cudaError_t launch_recurrent(const RecurrentParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
