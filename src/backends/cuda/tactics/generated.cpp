// Provider "generated": one kernel an operation, written for its types, sizes and strides and compiled by NVRTC.
#include <algorithm>
#include <array>

#include "backends/cuda/device/kernel_store.hpp"
#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/generate/generate.hpp"
#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t most_arguments = 80;

/// Where an argument lies; the plan may go away.
std::vector<Place> places_of(const GeneratedKernel& kernel, const Plan& plan) {
    std::vector<Place> places;
    for (const GeneratedArgument& each : kernel.arguments) {
        if (each.weight != none)
            places.push_back({none, each.weight, 0});
        else
            places.push_back(place_of(plan, each.value));
    }
    return places;
}

class GeneratedBound final : public BoundKernel {
public:
    GeneratedBound(std::string name, std::shared_ptr<const LoadedKernel> loaded, const GeneratedKernel& kernel,
                   std::vector<void*> addresses)
        : name_(std::move(name)), loaded_(std::move(loaded)), grid_(kernel.grid[0], kernel.grid[1], kernel.grid[2]),
          threads_(kernel.threads), cluster_(kernel.cluster), shared_(kernel.shared_bytes),
          addresses_(std::move(addresses)) {}

    Result<void> launch(cudaStream_t stream, bool programmatic) const override {
        cudaLaunchConfig_t config{};
        config.gridDim = grid_;
        config.blockDim = dim3(threads_);
        config.dynamicSmemBytes = shared_;
        config.stream = stream;
        std::array<cudaLaunchAttribute, 2> attributes{};
        unsigned count = 0;
        if (programmatic) {
            attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attributes[count++].val.programmaticStreamSerializationAllowed = 1;
        }
        if (cluster_ > 1) {
            attributes[count].id = cudaLaunchAttributeClusterDimension;
            attributes[count].val.clusterDim.x = cluster_;
            attributes[count].val.clusterDim.y = 1;
            attributes[count++].val.clusterDim.z = 1;
        }
        config.attrs = attributes.data();
        config.numAttrs = count;
        // The driver takes the arguments' addresses, and copies them.
        std::array<void*, most_arguments> arguments{};
        for (std::size_t i = 0; i < addresses_.size(); ++i)
            arguments[i] = const_cast<void**>(&addresses_[i]);
        LATHE_CUDA(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(loaded_->kernel()), arguments.data()),
                   "launch of " + name_);
        return {};
    }

private:
    std::string name_;
    std::shared_ptr<const LoadedKernel> loaded_;
    dim3 grid_;
    unsigned threads_, cluster_;
    std::size_t shared_;
    std::vector<void*> addresses_;
};

class GeneratedPrepared final : public PreparedKernel {
public:
    GeneratedPrepared(std::string name, std::string key, GeneratedKernel kernel, std::vector<Place> places, bool waits)
        : name_(std::move(name)), key_(std::move(key)), kernel_(std::move(kernel)), places_(std::move(places)),
          waits_(waits) {
        kernel_.source.clear();
    }
    std::size_t workspace_bytes() const override { return 0; }
    bool waits() const override { return waits_; }
    std::string code_key() const override { return key_; }
    /// Loads the code too: nothing is loaded while a stream is captured.
    Result<std::unique_ptr<BoundKernel>> bind(const Pointers& pointers) const override {
        LATHE_TRY(auto loaded, KernelStore::of_process().load(key_, kernel_.entry));
        cudaFuncAttributes attributes{};
        LATHE_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(loaded->kernel())),
                   "loading " + name_);
        std::vector<void*> addresses;
        for (const Place& place : places_)
            addresses.push_back(place.in(pointers));
        return std::unique_ptr<BoundKernel>(
            std::make_unique<GeneratedBound>(name_, std::move(loaded), kernel_, std::move(addresses)));
    }

private:
    std::string name_, key_;
    GeneratedKernel kernel_;
    std::vector<Place> places_;
    bool waits_;
};

class GeneratedProvider final : public Provider {
public:
    std::string name() const override { return "generated"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        auto ids = generated_variants(op, plan, target_of(device), why);
        if (!nvrtc_library().found) {
            // An engine brings the code of its own kernels.
            std::erase_if(ids, [&](const std::string& id) {
                const auto kernel = generate(id, op, plan, target_of(device));
                return !kernel || KernelStore::of_process().find(key_of(*kernel, device)) == nullptr;
            });
            if (ids.empty() && why.empty()) why = "NVRTC, which compiles generated kernels, was not found";
        }
        const std::size_t limit = effort == Effort::fast ? 2 : effort == Effort::standard ? 3 : 16;
        if (ids.size() > limit) ids.resize(limit);
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        auto made = generate(id, op, plan, target_of(device));
        if (!made) return no_such_tactic(name(), id, op);
        GeneratedKernel& kernel = *made;
        if (kernel.arguments.size() > most_arguments) return cannot(op, "more operands than a kernel takes");
        auto places = places_of(kernel, plan);
        const std::string title = "generated " + id + " for " + op.name;
        if (auto code = KernelStore::of_process().compile(source_of(kernel), kernel.entry, device.sm); !code)
            return std::move(code).error().in(op.name);
        std::string key = key_of(kernel, device);
        return std::unique_ptr<PreparedKernel>(std::make_unique<GeneratedPrepared>(
            title, std::move(key), std::move(kernel), std::move(places), device.sm >= 90));
    }

private:
    static GeneratedTarget target_of(const Device& device) { return {device.sm, device.multiprocessors}; }
    static std::string source_of(const GeneratedKernel& kernel) { return generated_preamble() + kernel.source; }
    static std::string key_of(const GeneratedKernel& kernel, const Device& device) {
        return KernelStore::key(source_of(kernel), device.sm);
    }
};

} // namespace

std::unique_ptr<Provider> make_generated_provider() { return std::make_unique<GeneratedProvider>(); }

} // namespace lathe::cuda
