#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace lathe::cuda::kernels {

/// Up to 8 rows of f16 or bf16 whose k is shared out over `split` warps (2, 4 or 8): more of the weights are on their
/// way at once than one warp a column has (a decoder's step).
bool split_gemm_takes(const GemmParams& params, int split);
cudaError_t launch_split_gemm(int split, const GemmParams& params, cudaStream_t stream, bool programmatic);

/// Any number of rows with at most 64 numbers and 16 results (heads that are mixed, coordinates, tables): a thread has
/// a row, the weights lie in shared memory. Floats.
bool narrow_gemm_takes(const GemmParams& params);
cudaError_t launch_narrow_gemm(const GemmParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
