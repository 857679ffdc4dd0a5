#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "backends/cuda/tuning/memory_account.hpp"
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

/// Owner of memory that `Place` takes and gives back. Moves.
template <class Place>
class OwnedMemory {
public:
    /// `what` goes into errors. Nothing is taken for 0 bytes.
    static Result<OwnedMemory> allocate(std::size_t bytes, const std::string& what) {
        OwnedMemory memory;
        if (bytes == 0) return memory;
        LATHE_TRY(void* const data, Place::take(bytes, what));
        memory.data_ = static_cast<std::byte*>(data);
        memory.size_ = bytes;
        return memory;
    }
    OwnedMemory() = default;
    OwnedMemory(OwnedMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    OwnedMemory& operator=(OwnedMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~OwnedMemory() {
        if (data_ != nullptr) Place::give_back(data_);
    }
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Memory of the current GPU. Counts against LATHE_CUDA_MEMORY_LIMIT (bytes, or "2GiB"), if that is set.
struct OnDevice {
    static Result<void*> take(std::size_t bytes, const std::string& what);
    static void give_back(void* data);
};
/// Page-locked memory of the host, which the device copies from and to directly.
struct PageLocked {
    static Result<void*> take(std::size_t bytes, const std::string& what);
    static void give_back(void* data);
};
using DeviceMemory = OwnedMemory<OnDevice>;
using PinnedMemory = OwnedMemory<PageLocked>;

/// Device memory of this process.
MemoryAccount& memory_account();

/// Why no GPU can be used, and what would change it, from what cudaGetDeviceCount and cudaDriverGetVersion said.
/// `driver`: the newest CUDA version the driver knows, 0 without a driver; `runtime`: that this program was built with.
std::pair<std::string, std::string> no_gpu(cudaError_t found, int driver, int runtime);

} // namespace lathe::cuda
