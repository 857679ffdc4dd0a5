#include "backends/cuda/device/cuda.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/device/nvml.hpp"
#include "support/log.hpp"

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

MemoryAccount& memory_account() {
    static MemoryAccount account([]() -> std::optional<std::size_t> {
        const char* limit = std::getenv("LATHE_CUDA_MEMORY_LIMIT");
        if (limit == nullptr || *limit == '\0') return std::nullopt;
        const auto bytes = parse_bytes(limit);
        if (!bytes)
            log(LogLevel::warning, "LATHE_CUDA_MEMORY_LIMIT is no size and has no effect: " + std::string(limit));
        return bytes;
    }());
    return account;
}

// Nothing is said when giving back fails: at the end of a process the driver may be gone already.

Result<void*> OnDevice::take(std::size_t bytes, const std::string& what) {
    int device = 0;
    LATHE_CUDA(cudaGetDevice(&device), "asking for the GPU in use");
    LATHE_CHECK(memory_account().check(device, bytes, what));
    void* data = nullptr;
    LATHE_CUDA(cudaMalloc(&data, bytes), "allocating " + std::to_string((bytes + 1023) >> 10) + " KiB for " + what);
    memory_account().add(device, data, bytes);
    return data;
}

void OnDevice::give_back(void* data) {
    memory_account().remove(data);
    static_cast<void>(cudaFree(data));
}

Result<void*> PageLocked::take(std::size_t bytes, const std::string& what) {
    void* data = nullptr;
    LATHE_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocPortable),
               "allocating " + std::to_string((bytes + 1023) >> 10) + " KiB of page-locked memory for " + what);
    return data;
}

void PageLocked::give_back(void* data) { static_cast<void>(cudaFreeHost(data)); }

std::pair<std::string, std::string> no_gpu(cudaError_t found, int driver, int runtime) {
    const auto version = [](int number) {
        return std::to_string(number / 1000) + "." + std::to_string(number / 10 % 100);
    };
    const std::string elsewhere = "; without a GPU use --device cpu";
    const std::string newer = "install NVIDIA's driver for CUDA " + std::to_string(runtime / 1000) +
                              " (580 or newer for CUDA 13) and check `nvidia-smi`";
    if (driver > 0 && (found == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000)) {
        return {"NVIDIA's driver is too old: it knows CUDA up to " + version(driver) + ", this program needs " +
                    version(runtime),
                newer + elsewhere};
    }
    if (found == cudaSuccess || found == cudaErrorNoDevice) {
        return {"no NVIDIA GPU is visible (cudaGetDeviceCount: no device)",
                "check `nvidia-smi` and CUDA_VISIBLE_DEVICES" + elsewhere};
    }
    return {"no NVIDIA driver answers (cudaGetDeviceCount: " + std::string(cudaGetErrorString(found)) + ")",
            newer + elsewhere};
}

} // namespace lathe::cuda
