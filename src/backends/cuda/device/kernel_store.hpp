#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include "backends/cuda/device/cuda.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// A kernel's machine code in the driver, for all GPUs of the process; unloaded with its last owner.
class LoadedKernel {
public:
    static Result<std::shared_ptr<const LoadedKernel>> load(const std::string& code, const std::string& entry);
    ~LoadedKernel();
    LoadedKernel(const LoadedKernel&) = delete;
    LoadedKernel& operator=(const LoadedKernel&) = delete;

    cudaKernel_t kernel() const { return kernel_; }

private:
    LoadedKernel() = default;
    cudaLibrary_t library_ = nullptr;
    cudaKernel_t kernel_ = nullptr;
};

/// Machine code of generated sources: of this process, of engine files that were loaded, and of a folder that outlives
/// it. Thread-safe.
class KernelStore {
public:
    static KernelStore& of_process();

    /// Identity of a source for a compute capability: what an engine file knows its code by.
    static std::string key(const std::string& source, int sm);
    /// The code, if it is there without compiling.
    std::shared_ptr<const std::string> find(const std::string& key);
    /// Code of an engine file.
    void add(const std::string& key, std::shared_ptr<const std::string> code);
    /// Found, or compiled and kept. Errors: those of compile_cuda.
    Result<std::shared_ptr<const std::string>> compile(const std::string& source, const std::string& name, int sm);
    /// The kernel on the GPUs: loaded once while anybody holds it.
    Result<std::shared_ptr<const LoadedKernel>> load(const std::string& key, const std::string& entry);
    /// Where compiled code is kept for other processes. Empty: nowhere.
    void keep_in(std::filesystem::path folder);

private:
    std::filesystem::path file_of(const std::string& key) const;

    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const std::string>> code_;
    std::map<std::string, std::weak_ptr<const LoadedKernel>> loaded_;
    std::filesystem::path folder_;
};

} // namespace lathe::cuda
