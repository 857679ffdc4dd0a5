// The depths that a window of a volume meets, beside one another as channels: memory alone decides. A thread stores 16
// bytes; four of a block's stores are behind one another, so that loads overlap.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/depth_taps.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;
constexpr int each = 4;

/// Index is 32 bits wide where the result has fewer vectors: divisions by sizes cost a tenth then.
template <class Index>
__global__ void __launch_bounds__(threads) depth_taps(const __grid_constant__ DepthTapsParams p, Index count) {
    pdl_wait();
    const auto vectors = static_cast<Index>(p.vectors), taps = static_cast<Index>(p.taps);
    const auto pixels = static_cast<Index>(p.pixels), results = static_cast<Index>(p.results);
    const Index first = static_cast<Index>(blockIdx.x) * (threads * each) + threadIdx.x;
    const auto* x = static_cast<const uint4*>(p.x);
    uint4 v[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
        const Index i = first + static_cast<Index>(k * threads);
        v[k] = make_uint4(0, 0, 0, 0);
        if (i >= count) continue;
        Index rest = i / vectors;
        const Index vector = i - rest * vectors, above = rest / taps, tap = rest - above * taps;
        rest = above / pixels;
        const Index pixel = above - rest * pixels, sample = rest / results, result = rest - sample * results;
        const std::int64_t depth =
            static_cast<std::int64_t>(result) * p.stride + static_cast<std::int64_t>(tap) * p.dilation - p.before;
        if (depth >= 0 && depth < p.depths) {
            const std::int64_t frame = static_cast<std::int64_t>(sample) * p.depths + depth;
            v[k] = x[(frame * p.pixels + static_cast<std::int64_t>(pixel)) * p.vectors +
                     static_cast<std::int64_t>(vector)];
        }
    }
    pdl_trigger();
#pragma unroll
    for (int k = 0; k < each; ++k) {
        const Index i = first + static_cast<Index>(k * threads);
        if (i < count) static_cast<uint4*>(p.y)[i] = v[k];
    }
}

} // namespace

cudaError_t launch_depth_taps(const DepthTapsParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = p.n * p.results * p.pixels * p.taps * p.vectors;
    const unsigned blocks = blocks_for(count, threads * each);
    if (count < 0x7fffffff - threads * each)
        return launch_kernel(depth_taps<std::uint32_t>, blocks, threads, 0, stream, programmatic, 1, p,
                             static_cast<std::uint32_t>(count));
    return launch_kernel(depth_taps<std::uint64_t>, blocks, threads, 0, stream, programmatic, 1, p,
                         static_cast<std::uint64_t>(count));
}

} // namespace lathe::cuda::kernels
