#include "backends/cuda/device/cuda.hpp"

#include <fstream>
#include <sstream>
#include <utility>

#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/device/nvml.hpp"

namespace lathe::cuda {

namespace {

/// Errors after which nothing works any more in this process.
bool is_sticky(cudaError_t code) {
    switch (code) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorECCUncorrectable:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorIllegalInstruction:
        case cudaErrorHardwareStackError:
        case cudaErrorAssert: return true;
        default: return false;
    }
}

/// "580.159.04": as NVML, else the kernel module says it; else the CUDA version the driver has.
std::string driver_version() {
    if (nvml_library().found && !nvml_library().version.empty()) return nvml_library().version;
    std::ifstream file("/proc/driver/nvidia/version");
    std::string word;
    while (file >> word) {
        if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos)
            return word;
    }
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess) return "unknown";
    return "for CUDA " + std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100);
}

} // namespace

Error cuda_error(cudaError_t code, const std::string& what) {
    const std::string text = what + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")";
    switch (code) {
        case cudaErrorMemoryAllocation: {
            cudaGetLastError(); // not sticky: forget it
            std::string state;
            std::size_t free = 0, total = 0;
            if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
                state = std::to_string(free >> 20) + " MiB of " + std::to_string(total >> 20) + " MiB are free; ";
            }
            return {ErrorCode::out_of_memory, text, "GPU",
                    state + "use a smaller batch, end other programs on the GPU, or set a smaller --workspace"};
        }
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorInitializationError:
        case cudaErrorSystemDriverMismatch:
        case cudaErrorStubLibrary:
        case cudaErrorNotSupported:
            return {ErrorCode::unsupported, text, "GPU", "check `nvidia-smi` and `lathe doctor`"};
        default: break;
    }
    if (is_sticky(code)) {
        return {ErrorCode::internal, text, "GPU",
                "the GPU's state in this process is lost: start the process again, and report how it came to this"};
    }
    return {ErrorCode::internal, text, "GPU", "see `lathe doctor`; if it stays, report it"};
}

Result<Device> device(int index) {
    int count = 0;
    LATHE_CUDA(cudaGetDeviceCount(&count), "looking for GPUs");
    if (index < 0 || index >= count) {
        return Error{ErrorCode::not_found, "there is no GPU " + std::to_string(index), "GPU",
                     "this machine shows " + std::to_string(count) + " (see `lathe doctor` and CUDA_VISIBLE_DEVICES)"};
    }
    cudaDeviceProp properties{};
    LATHE_CUDA(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
    Device device;
    device.index = index;
    device.name = properties.name;
    device.sm = properties.major * 10 + properties.minor;
    device.multiprocessors = properties.multiProcessorCount;
    device.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
    device.memory_bytes = properties.totalGlobalMem;
    device.shared_per_block = properties.sharedMemPerBlockOptin;
    static const std::string driver = driver_version();
    device.driver = driver;
    return device;
}

Result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes, const std::string& what) {
    DeviceMemory memory;
    if (bytes == 0) return memory;
    void* data = nullptr;
    LATHE_CUDA(cudaMalloc(&data, bytes), "allocating " + std::to_string((bytes + 1023) >> 10) + " KiB for " + what);
    memory.data_ = static_cast<std::byte*>(data);
    memory.size_ = bytes;
    return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

DeviceMemory::~DeviceMemory() {
    // At process end the driver may be gone already; there is nobody to tell.
    if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

} // namespace lathe::cuda
