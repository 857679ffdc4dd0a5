#pragma once
// A plan on the memory of one session, ready to be enqueued.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/device/handles.hpp"
#include "backends/cuda/device/state.hpp"

namespace lathe::cuda {

/// An input or output of a bound plan.
struct Port {
    void* device = nullptr;
    std::size_t bytes = 0;
    Shape shape;
};

struct Bound {
    std::shared_ptr<const DevicePlan> source;
    std::vector<void*> values;
    std::vector<const void*> weights;
    std::vector<std::unique_ptr<BoundKernel>> kernels;
    std::vector<Port> inputs, outputs;
    std::vector<void*> counts; ///< of the plan's open outputs, in their order
    Graph whole;               ///< copies and kernels
    Graph compute;             ///< kernels alone

    /// The first `count` operations.
    Result<void> enqueue_kernels(cudaStream_t stream, std::size_t count) const;
    Result<void> enqueue_kernels(cudaStream_t stream) const { return enqueue_kernels(stream, kernels.size()); }
    /// Each operation's time, the median of five runs. `copy_in` enqueues the inputs: later operations may have taken
    /// their memory. Errors: a kernel's.
    Result<std::vector<LayerInfo>> time_layers(const Stream& stream,
                                               const std::function<Result<void>()>& copy_in) const;
};

/// Binds `source` to memory that is large enough for it. Errors: a kernel that cannot be bound; internal if an input or
/// output is kept in another form than the model's.
Result<std::unique_ptr<Bound>> bind_plan(EngineState& state, std::size_t place,
                                         std::shared_ptr<const DevicePlan> source, const DeviceMemory& arena,
                                         const DeviceMemory& workspace);

} // namespace lathe::cuda
