#pragma once

#include "backends/cuda/kernels/recurrent.hpp"

namespace lathe::cuda::kernels {

/// How many samples (16, 32, 64) a block, or a cluster of more than one block (sm_90), takes through all steps.
struct RecurrentMmaTile {
    std::int32_t blocks, samples;
};
std::size_t recurrent_mma_shared_bytes(const RecurrentMmaTile& tile, const RecurrentParams& params);
/// f16 and bf16, widths that are a multiple of 8 in each block, the recurrence in the blocks' shared memory. Not for a
/// GRU whose reset gate scales the state.
bool recurrent_mma_takes(const RecurrentMmaTile& tile, const RecurrentParams& params);
cudaError_t launch_recurrent_mma(const RecurrentMmaTile& tile, const RecurrentParams& params, cudaStream_t stream,
                                 bool programmatic);

} // namespace lathe::cuda::kernels
