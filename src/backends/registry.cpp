#include <filesystem>

#include "backends/api/absent_backend.hpp"
#include "backends/api/backend.hpp"
#include "backends/api/device_copies.hpp"
#include "backends/api/tensorrt_search.hpp"
#include "backends/openvino/openvino_backend.hpp"
#ifdef LATHE_HAS_TENSORRT
#include "backends/tensorrt/tensorrt_backend.hpp"
#endif
#ifdef LATHE_HAS_CUDA
#include "backends/cuda/cuda_backend.hpp"
#include "backends/fallback/fallback_backend.hpp"
#endif

namespace lathe {

namespace {

/// What this machine shows of an NVIDIA GPU, for the cause of an absent backend.
[[maybe_unused]] std::string nvidia_state() {
    std::error_code ignored;
    if (std::filesystem::exists("/proc/driver/nvidia/version", ignored)) return "this machine has an NVIDIA driver";
    return "this machine shows no NVIDIA driver either";
}

std::vector<std::unique_ptr<Backend>> make_backends() {
    std::vector<std::unique_ptr<Backend>> list;
    list.push_back(make_openvino_backend());
#ifdef LATHE_HAS_CUDA
    list.push_back(make_fallback_backend(make_cuda_backend(), *list.front()));
#else
    list.push_back(make_absent_backend(
        {"cuda", "cuda", "this build of Lathe has no CUDA backend (" + nvidia_state() + ")",
         "build Lathe where the CUDA 13 toolkit is (docs/howto/use-an-nvidia-gpu.md), or use --device cpu"}));
#endif
#ifdef LATHE_HAS_TENSORRT
    list.push_back(make_tensorrt_backend());
#else
    list.push_back(make_absent_backend(
        {"tensorrt", "tensorrt",
         "this build of Lathe has no TensorRT backend: " LATHE_TENSORRT_MISSING " (" + nvidia_state() + ")",
         "build Lathe with -DTENSORRT_ROOT set to the SDK of TensorRT 10, 11 or TensorRT-RTX; or write an explicit "
         "Q/DQ "
         "model with `lathe quantize --target tensorrt` and build it with trtexec on the GPU machine",
         [] {
             const std::string libraries = describe(installed_tensorrt());
             return libraries.empty() ? libraries : "; installed here: " + libraries;
         }}));
#endif
    return list;
}

} // namespace

const std::vector<std::unique_ptr<Backend>>& backends() {
    static const std::vector<std::unique_ptr<Backend>> list = make_backends();
    return list;
}

Result<std::unique_ptr<DeviceCopies>> make_device_copies(int device) {
#ifdef LATHE_HAS_CUDA
    return make_cuda_copies(device);
#else
    return Error{ErrorCode::unsupported, "this build of Lathe reaches no GPU's memory", "GPU " + std::to_string(device),
                 "build Lathe where the CUDA 13 toolkit is (docs/howto/use-an-nvidia-gpu.md)"};
#endif
}

} // namespace lathe
