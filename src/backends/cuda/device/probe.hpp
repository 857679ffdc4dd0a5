#pragma once
// Kernels that measure the machine. Between g++ and nvcc: plain types.

#include <cstddef>

#include <cuda_runtime_api.h>

namespace lathe::cuda::kernels {

/// Copies `bytes` (a multiple of 16) `times` times past the first-level caches, each block its own part.
cudaError_t launch_copy(void* to, const void* from, std::size_t bytes, int times, int blocks, cudaStream_t stream);
/// One block that does nothing.
cudaError_t launch_nothing(cudaStream_t stream);

} // namespace lathe::cuda::kernels
