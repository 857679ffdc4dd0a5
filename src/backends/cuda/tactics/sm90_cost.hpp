#pragma once
// Which of the Hopper kernels' tiles to time first.

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda {

/// Guess of a tile's time in microseconds, to order candidates by. `split`: blocks of a cluster; `in` and `out`: bytes
/// of an element. For tiles that take the problem.
double sm90_cost(const kernels::TileConfig& tile, int split, const kernels::ImplicitGemmParams& params, int in, int out,
                 int multiprocessors);

} // namespace lathe::cuda
