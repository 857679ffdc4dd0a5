#include "backends/cuda/kernels/depthwise_window.cuh"

namespace lathe::cuda::kernels::depthwise {

cudaError_t launch_s8(const DepthwiseParams& p, const Work& t, int columns, std::size_t shared, cudaStream_t stream,
                      bool programmatic) {
    return launch_type<std::int8_t>(p, t, columns, shared, stream, programmatic);
}

} // namespace lathe::cuda::kernels::depthwise
