#pragma once

#include "backends/cuda/device/handles.hpp"
#include "backends/cuda/device/pinned_pool.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/pictures.hpp"

namespace lathe::cuda {

/// Takes pictures to the device and turns them into an input there. Keeps its memory between batches.
class PictureStage {
public:
    /// The shape that the batch gives.
    static Shape shape_of(const PictureBatch& batch);
    /// Enqueues copy and kernel, which write `out` (float32, shape_of(batch)). The stream must have finished the batch
    /// before. Errors: invalid_argument for tables that do not fit the pictures; out_of_memory.
    Result<void> enqueue(const PictureBatch& batch, float* out, const Stream& stream, PinnedPool& pool);
    /// Gives the staging memory back.
    void release(PinnedPool& pool) { pool.give(std::exchange(staged_, PinnedMemory())); }

private:
    PinnedMemory staged_;
    DeviceMemory memory_;
};

} // namespace lathe::cuda
