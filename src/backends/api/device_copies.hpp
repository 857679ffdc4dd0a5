#pragma once

// Copies to, from and within a GPU's memory for whoever hands tensors to sessions and does not know CUDA.

#include <cstddef>
#include <memory>
#include <span>

#include "lathe/result.hpp"

namespace lathe {

/// Memory on one GPU, and copies that follow one another. One thread at a time.
class DeviceCopies {
public:
    virtual ~DeviceCopies() = default;
    /// The memory of this number, so many bytes at least. It stays where it is, with what it holds, until more is asked
    /// for. Errors: out_of_memory.
    virtual Result<std::span<std::byte>> memory(std::size_t number, std::size_t bytes) = 0;
    /// Enqueues a copy. Either side may be the memory of the host or of a GPU; memory of the host stays as it is until
    /// `wait`.
    virtual Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
    /// Until all copies are done.
    virtual Result<void> wait() = 0;
};

/// For the GPU with this index. Errors: unsupported where Lathe was built without CUDA.
Result<std::unique_ptr<DeviceCopies>> make_device_copies(int device);

} // namespace lathe
