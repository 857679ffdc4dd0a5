#pragma once

#include "backends/cuda/kernels/recurrent.hpp"

namespace lathe::cuda::kernels {

/// How the units of a state are shared out: over how many blocks of a cluster, which do how many samples at once.
struct RecurrentTile {
    int blocks, samples;
};
const RecurrentTile* recurrent_tiles(int& count);
/// Whether the recurrence fits the blocks' shared memory. Not for a GRU whose reset gate scales the state.
bool recurrent_cluster_takes(const RecurrentTile& tile, const RecurrentParams& params);
/// Clock cycles of a step, roughly, times how often all multiprocessors are filled: to order tiles.
double recurrent_cluster_cost(const RecurrentTile& tile, const RecurrentParams& params, int multiprocessors);
cudaError_t launch_recurrent_cluster(const RecurrentTile& tile, const RecurrentParams& params, cudaStream_t stream,
                                     bool programmatic);

} // namespace lathe::cuda::kernels
