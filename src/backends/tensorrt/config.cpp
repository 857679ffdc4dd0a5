#include "backends/tensorrt/config.hpp"

#include <algorithm>
#include <array>

#include "backends/tensorrt/messages.hpp"
#include "support/files.hpp"
#include "support/log.hpp"

namespace lathe::tensorrt {

namespace {

using nvinfer1::BuilderFlag;

Error lacks(const std::string& option, const std::string& hint) {
    return {ErrorCode::unsupported, std::string(product_name) + " has no " + option, option, hint};
}

/// 0 to 5. `--tune` says it where no level was given.
std::optional<int> level_of(const CompileOptions& options, const TensorRtOptions& wanted) {
    if (wanted.optimization_level) return wanted.optimization_level;
    if (options.tune == TuneEffort::fast) return 1;
    if (options.tune == TuneEffort::full) return 5;
    return std::nullopt;
}

Result<void> set_compute_capabilities(nvinfer1::IBuilderConfig& config, const std::vector<int>& wanted) {
    if (wanted.empty()) return {};
#ifdef TRT_MAJOR_RTX
    const Capture capture;
    bool taken = config.setNbComputeCapabilities(static_cast<std::int32_t>(wanted.size()));
    for (std::size_t i = 0; i < wanted.size() && taken; ++i)
        taken = config.setComputeCapability(static_cast<nvinfer1::ComputeCapability>(wanted[i]),
                                            static_cast<std::int32_t>(i));
    if (taken) return {};
    std::string list;
    for (const int capability : wanted)
        list += (list.empty() ? "" : ", ") + std::to_string(capability);
    return Error{ErrorCode::unsupported,
                 "TensorRT-RTX does not compile for compute capability " + list + capture.because(),
                 "--compute-capability", "it knows 75, 80, 86, 89, 120 and 121"};
#else
    static_cast<void>(config);
    return lacks("--compute-capability", "it builds for the GPU of this machine; --hardware-compatible for others");
#endif
}

} // namespace

nvinfer1::NetworkDefinitionCreationFlags network_flags() {
#if !defined(TRT_MAJOR_RTX) && NV_TENSORRT_MAJOR < 11
    return 1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
#else
    return 0;
#endif
}

Result<std::unique_ptr<nvinfer1::IBuilderConfig>>
make_config(nvinfer1::IBuilder& builder, const CompileOptions& options, const TensorRtOptions& wanted) {
    std::unique_ptr<nvinfer1::IBuilderConfig> config(builder.createBuilderConfig());
    if (!config) return Error{ErrorCode::internal, "TensorRT gave no builder configuration", "tensorrt", ""};
    // It is on unless cleared, and fp32 means fp32.
    if (options.precision == Precision::tensor_float32) {
        config->setFlag(BuilderFlag::kTF32);
    } else {
        config->clearFlag(BuilderFlag::kTF32);
    }
    if (options.workspace_bytes > 0)
        config->setMemoryPoolLimit(nvinfer1::MemoryPoolType::kWORKSPACE, options.workspace_bytes);
    if (const auto level = level_of(options, wanted)) config->setBuilderOptimizationLevel(*level);
    if (options.threads > 0 && !builder.setMaxThreads(static_cast<std::int32_t>(options.threads))) {
        return Error{ErrorCode::invalid_argument, "TensorRT does not take this number of threads", "--threads", ""};
    }
    // So that the engine can name its layers.
    config->setProfilingVerbosity(nvinfer1::ProfilingVerbosity::kDETAILED);
    if (wanted.version_compatible) {
        // Its header has the flag, its documentation says that no other release loads the plan.
        if (is_rtx) return lacks("--version-compatible", "its engines load in the release that built them only");
        config->setFlag(BuilderFlag::kVERSION_COMPATIBLE);
    }
    if (wanted.strip_weights) config->setFlag(BuilderFlag::kSTRIP_PLAN);
    // TensorRT takes a stripped plan as one that gets its own weights back; TensorRT-RTX wants both flags.
    if (wanted.refittable || (is_rtx && wanted.strip_weights)) config->setFlag(BuilderFlag::kREFIT);
    if (wanted.hardware_compatible) {
        if (is_rtx) return lacks("--hardware-compatible", "its engines run on every GPU generation compiled for");
        config->setHardwareCompatibilityLevel(nvinfer1::HardwareCompatibilityLevel::kAMPERE_PLUS);
    }
    LATHE_CHECK(set_compute_capabilities(*config, wanted.compute_capabilities));
    return config;
}

Result<void> add_profiles(nvinfer1::IBuilder& builder, const nvinfer1::INetworkDefinition& network, const Plan& plan,
                          nvinfer1::IBuilderConfig& config) {
    using Selector = nvinfer1::OptProfileSelector;
    for (const auto& ranges : plan.profiles) {
        // The builder owns it.
        nvinfer1::IOptimizationProfile* profile = builder.createOptimizationProfile();
        for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
            const std::string& name = plan.inputs[i].name;
            const ShapeRange& range = ranges[i];
            const nvinfer1::ITensor* input = nullptr;
            for (int j = 0; j < network.getNbInputs(); ++j) {
                if (network.getInput(j)->getName() == name) input = network.getInput(j);
            }
            if (input == nullptr) {
                return Error{ErrorCode::unsupported, "TensorRT dropped this input of the model", name,
                             "simplify the model first: lathe simplify"};
            }
            if (input->isShapeTensor()) {
                return Error{
                    ErrorCode::unsupported,
                    "this input's values are shapes of other tensors, for which TensorRT wants ranges of values", name,
                    "export the model with fixed shapes"};
            }
            const Shape fixed = shape_of(input->getDimensions());
            bool fits = fixed.size() == range.min.size();
            for (std::size_t axis = 0; fits && axis < fixed.size(); ++axis)
                fits = fixed[axis] < 0 || (fixed[axis] == range.min[axis] && fixed[axis] == range.max[axis]);
            if (!fits) {
                return Error{ErrorCode::invalid_argument,
                             "the model's input is " + to_string(fixed) + ", the shapes asked are " + range.describe(),
                             name, "export the model with open sizes (lathe export does)"};
            }
            if (std::ranges::all_of(fixed, [](std::int64_t size) { return size >= 0; })) continue;
            const bool taken = profile->setDimensions(name.c_str(), Selector::kMIN, dims_of(range.min)) &&
                               profile->setDimensions(name.c_str(), Selector::kOPT, dims_of(range.opt)) &&
                               profile->setDimensions(name.c_str(), Selector::kMAX, dims_of(range.max));
            if (!taken) {
                return Error{ErrorCode::invalid_argument, "TensorRT does not take the shapes " + range.describe(), name,
                             "every size needs 1 <= min <= opt <= max"};
            }
        }
        const Capture capture;
        if (config.addOptimizationProfile(profile) < 0) {
            return Error{ErrorCode::invalid_argument, "TensorRT refuses the shape ranges" + capture.because(),
                         "--shape", ""};
        }
    }
    return {};
}

#ifdef TRT_MAJOR_RTX

Result<void> TimingCache::attach(nvinfer1::IBuilderConfig& /*config*/) {
    if (file_.empty()) return {};
    return lacks("--timing-cache", "it times no kernels while building; leave it out");
}

Result<void> TimingCache::save(const nvinfer1::IBuilderConfig& /*config*/) const { return {}; }

#else

Result<void> TimingCache::attach(nvinfer1::IBuilderConfig& config) {
    if (file_.empty()) return {};
    std::string bytes;
    std::error_code ignored;
    if (std::filesystem::exists(file_, ignored)) {
        LATHE_TRY(bytes, read_text_file(file_));
    }
    cache_.reset(config.createTimingCache(bytes.data(), bytes.size()));
    if (!cache_ && !bytes.empty()) {
        log(LogLevel::warning, file_.string() + " is no timing cache of this TensorRT: begun anew");
        cache_.reset(config.createTimingCache(nullptr, 0));
    }
    if (!cache_ || !config.setTimingCache(*cache_, false)) {
        return Error{ErrorCode::mismatch, "TensorRT does not take this timing cache", file_.string(),
                     "it is of another GPU or version: name another file"};
    }
    return {};
}

Result<void> TimingCache::save(const nvinfer1::IBuilderConfig& config) const {
    if (file_.empty()) return {};
    const nvinfer1::ITimingCache* used = config.getTimingCache();
    const std::unique_ptr<nvinfer1::IHostMemory> memory(used == nullptr ? nullptr : used->serialize());
    if (!memory) return {};
    return write_file(file_, std::span(static_cast<const std::byte*>(memory->data()), memory->size()));
}

#endif

} // namespace lathe::tensorrt
