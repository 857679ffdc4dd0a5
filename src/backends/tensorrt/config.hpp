#pragma once

#include <filesystem>
#include <memory>

#include "backends/api/tensorrt.hpp"
#include "backends/tensorrt/api.hpp"
#include "backends/tensorrt/plan.hpp"

namespace lathe::tensorrt {

/// Full TensorRT times kernels and needs the GPU for that; TensorRT-RTX compiles them on the GPU at run time.
constexpr bool builder_needs_gpu() { return !is_rtx; }

nvinfer1::NetworkDefinitionCreationFlags network_flags();

/// What the options ask for. Errors: unsupported, for what this product or version lacks; never ignored silently.
Result<std::unique_ptr<nvinfer1::IBuilderConfig>>
make_config(nvinfer1::IBuilder& builder, const CompileOptions& options, const TensorRtOptions& wanted);

/// The plan's profiles for the network's inputs. Errors: invalid_argument, naming the input whose sizes contradict.
Result<void> add_profiles(nvinfer1::IBuilder& builder, const nvinfer1::INetworkDefinition& network, const Plan& plan,
                          nvinfer1::IBuilderConfig& config);

/// TensorRT's file of kernel times. TensorRT-RTX times nothing while building, so there a file is an error.
class TimingCache {
public:
    explicit TimingCache(std::filesystem::path file) : file_(std::move(file)) {}
    /// Reads the file if it is there. A file of another GPU or version is ignored with a message.
    Result<void> attach(nvinfer1::IBuilderConfig& config);
    Result<void> save(const nvinfer1::IBuilderConfig& config) const;

private:
    std::filesystem::path file_;
#ifndef TRT_MAJOR_RTX
    std::unique_ptr<nvinfer1::ITimingCache> cache_;
#endif
};

} // namespace lathe::tensorrt
