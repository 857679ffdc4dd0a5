#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "lathe/result.hpp"

namespace lathe::cuda {

/// A failed CUDA call as an Error: out_of_memory for cudaErrorMemoryAllocation, unsupported for no device or driver,
/// else internal; `what` says what was tried. Sticky errors say that the process must be restarted.
Error cuda_error(cudaError_t code, const std::string& what);
#define LATHE_CUDA(call, what)                                                                                         \
    do {                                                                                                               \
        if (const cudaError_t lathe_cuda_ = (call); lathe_cuda_ != cudaSuccess)                                        \
            return ::lathe::cuda::cuda_error(lathe_cuda_, what);                                                       \
    } while (false)

struct Device {
    int index = 0;
    std::string name;
    int sm = 0; ///< 90 for compute capability 9.0
    int multiprocessors = 0;
    std::size_t l2_bytes = 0, memory_bytes = 0, shared_per_block = 0;
    std::string driver; ///< "580.159.04"
};
Result<Device> device(int index);

class DeviceMemory { ///< cudaMalloc; moves
public:
    static Result<DeviceMemory> allocate(std::size_t bytes, const std::string& what);
    DeviceMemory() = default;
    DeviceMemory(DeviceMemory&&) noexcept;
    DeviceMemory& operator=(DeviceMemory&&) noexcept;
    ~DeviceMemory();
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace lathe::cuda
