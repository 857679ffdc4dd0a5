#pragma once

#include "backends/cuda/kernels/indexed.hpp"

namespace lathe::cuda::kernels {

/// Operations on the lines along an axis, and sampling of images, where threads share a line or a plane. The general
/// kernel of indexed.hpp takes all that these do not. Each `takes` says whether a launch with the same arguments is
/// right.

/// IndexedKind::top_k of floats, `threads` a line. 32: a warp keeps lines of up to 1024 numbers in registers and takes
/// the best in turn, at most 32. 256, 1024: a block finds the k-th by its digits (radix select), then sorts what comes
/// before.
bool top_k_takes(const IndexedParams& params, int threads);
std::int64_t top_k_shared_bytes(const IndexedParams& params, int threads);
cudaError_t launch_top_k(const IndexedParams& params, int threads, cudaStream_t stream, bool programmatic);

/// IndexedKind::arg_extreme of floats; 1, 32 or 256 `threads` a line.
bool arg_extreme_takes(const IndexedParams& params, int threads);
cudaError_t launch_arg_extreme(const IndexedParams& params, int threads, cudaStream_t stream, bool programmatic);

/// IndexedKind::cumulate of floats and integers; 32 or 256 `threads` a line.
bool cumulate_takes(const IndexedParams& params, int threads);
cudaError_t launch_cumulate(const IndexedParams& params, int threads, cudaStream_t stream, bool programmatic);

/// IndexedKind::grid_sample of images of two dimensions. A thread computes a place once for `channels` planes.
/// `staged`: a block brings them into shared memory first, which pays where places are many beside pixels.
struct GridTile {
    std::int32_t channels;
    bool staged;
};
/// Of a staged tile, 0 of another.
std::int64_t grid_sample_shared_bytes(const IndexedParams& params, const GridTile& tile);
bool grid_sample_takes(const IndexedParams& params, const GridTile& tile);
cudaError_t launch_grid_sample(const IndexedParams& params, const GridTile& tile, cudaStream_t stream,
                               bool programmatic);

} // namespace lathe::cuda::kernels
