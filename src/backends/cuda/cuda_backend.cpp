#include "backends/cuda/cuda_backend.hpp"

#include <tuple>

#include "backends/cuda/device/compiled.hpp"
#include "backends/cuda/device/copies.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/device/nvml.hpp"
#include "backends/cuda/device/state.hpp"
#include "backends/cuda/plan/lower.hpp"

namespace lathe {

namespace {

std::string library_line(const char* name, const cuda::Library& library) {
    if (library.found) return std::string(name) + " " + library.version + " at " + library.path;
    return std::string(name) + " not found: its kernels are left out (" + library.cure + ")";
}

Availability look() {
    Availability state;
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    int runtime = 0, driver = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (found != cudaSuccess || count == 0) {
        std::tie(state.cause, state.cure) = cuda::no_gpu(found, driver, runtime);
        return state;
    }
    state.available = true;
    state.version = "CUDA " + std::to_string(runtime / 1000) + "." + std::to_string(runtime / 10 % 100);
    for (int i = 0; i < count; ++i) {
        const auto device = cuda::device(i);
        if (!device) {
            state.devices.push_back("GPU " + std::to_string(i) + ": " + device.error().describe());
            continue;
        }
        state.devices.push_back("GPU " + std::to_string(i) + ": " + device->name + ", compute capability " +
                                std::to_string(device->sm / 10) + "." + std::to_string(device->sm % 10) + ", " +
                                std::to_string(device->multiprocessors) + " multiprocessors, " +
                                std::to_string(device->memory_bytes >> 30) + " GiB, driver " + device->driver);
    }
    state.devices.push_back(library_line("cuDNN", cuda::cudnn_library()));
    state.devices.push_back(library_line("cuBLASLt", cuda::cublaslt_library()));
    return state;
}

class CudaBackend final : public Backend {
public:
    std::string name() const override { return "cuda"; }
    std::string device() const override { return "cuda"; }

    Availability availability() const override {
        static const Availability state = look();
        return state;
    }

    Support supports(const Node& node, const Model& model) const override {
        return cuda::lowering_support(node, model);
    }

    Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const override {
        LATHE_CHECK(usable());
        return cuda::compile_model(model, options);
    }

    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                const CompileOptions& options) const override {
        LATHE_CHECK(usable());
        return cuda::load_model(blob, std::move(owner), options);
    }

    Result<std::unique_ptr<ActivationSource>> observe(const Model& /*model*/, std::vector<std::string> /*tensors*/,
                                                      std::size_t /*threads*/) const override {
        return Error{ErrorCode::unsupported, "the CUDA engine shows no intermediate values", "cuda",
                     "calibrate on the CPU: ranges serve every device"};
    }

    std::string blob_key() const override {
        const auto first = cuda::device(0);
        return "cuda plan 1; " + (first ? cuda::environment_of(*first) : std::string("no GPU"));
    }

    Traits traits() const override {
        Traits traits;
        traits.threads_matter = false;
        traits.profiles_without_recompiling = true;
        traits.sessions_share_engine = true;
        traits.several_devices = true;
        return traits;
    }

    std::optional<DeviceSample> sample(int device) const override { return cuda::sample_device(device); }
    std::vector<int> cpus_near(int device) const override { return cuda::cpus_near(device); }

private:
    Result<void> usable() const {
        const Availability state = availability();
        if (state.available) return {};
        return Error{ErrorCode::unsupported, state.cause, "cuda", state.cure};
    }
};

} // namespace

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

Result<std::unique_ptr<DeviceCopies>> make_cuda_copies(int device) { return cuda::make_copies(device); }

} // namespace lathe
