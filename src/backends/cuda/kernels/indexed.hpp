#pragma once

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/plan/indexed_kind.hpp"

namespace lathe::cuda::kernels {

/// plan/indexed.hpp's operation on linear values: `in` and `out` in its order, those that it lacks left out.
struct IndexedParams {
    IndexedKind kind;
    std::int32_t mode, first, second;
    std::int64_t axis, number;
    TensorDesc in[3], out[2];
    std::int32_t in_count;
    float factor, limit;
};
/// One thread a number of the result, or a line of it; scattering first copies x, then writes what is updated.
cudaError_t launch_indexed(const IndexedParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
