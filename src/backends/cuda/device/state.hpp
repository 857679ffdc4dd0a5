#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/device/pinned_pool.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/plan/values.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "backends/cuda/tuning/lru.hpp"
#include "backends/cuda/tuning/network_check.hpp"

namespace lathe::cuda {

/// What a plan's operations depend on beside the model: part of every engine's key and of the timing cache's.
/// "NVIDIA H200; sm_90; 132 SMs; driver 580.159.04; cuda 13.0; cudnn 9.19.0; cublasLt 13.1.0; kernels <digest>".
std::string environment_of(const Device& device);

/// A model for one set of input shapes on one device: what runs, where its values lie, and the kernels. Immutable.
struct DevicePlan {
    Plan plan;
    MemoryPlan memory;
    std::vector<std::string> tactics; ///< by op, "provider:id"
    std::vector<std::unique_ptr<PreparedKernel>> kernels;
    std::size_t workspace = 0;
};

/// What all sessions on one device share. Guarded by EngineState's mutex.
struct DeviceState {
    explicit DeviceState(Device device_) : device(std::move(device_)) {}
    Device device;
    std::vector<DeviceMemory> weight_memory;
    std::vector<const void*> weights; ///< by WeightId
    LruCache<std::string, std::shared_ptr<const DevicePlan>> plans{64};
};

/// One engine: shared by its compiled model and sessions.
struct EngineState {
    Prepared prepared;
    std::vector<std::vector<ShapeRange>> profiles; ///< by profile and input
    std::vector<IoInfo> inputs, outputs;
    std::string environment;
    std::size_t workspace_limit = 0;
    std::size_t arena_bytes = 0, workspace_bytes = 0; ///< a session's, for the largest shapes
    /// By signature: tactics that may be used, best first.
    std::map<std::string, std::vector<std::string>> tactics;
    /// Machine code of the generated kernels that tuned shapes use, by its key in the KernelStore.
    std::map<std::string, std::shared_ptr<const std::string>> code;
    Bans bans; ///< kernels that were wrong in a network; while building
    BuildReport report;

    std::mutex mutex; ///< lowering, weights and plans
    std::vector<std::unique_ptr<DeviceState>> devices;
    std::atomic<std::size_t> sessions{0};
    PinnedPool staging;

    /// Smallest and usual shapes of every profile, and its largest: what is tuned and what memory is sized for.
    std::vector<std::vector<Shape>> points() const;
    /// These shapes lie within one of the profiles (all inputs in the same).
    bool covers(const std::vector<Shape>& shapes) const;
};

/// Key of a set of input shapes, and of values that decide further ones.
std::string shapes_key(const std::vector<Shape>& shapes, const InputValues& values = {});
std::string shapes_text(const std::vector<Shape>& shapes);

/// Copies weights that came with lowering and are not on the device yet. Call with the mutex held, or alone.
Result<void> upload_weights(EngineState& state, DeviceState& device);

/// The address of a value: of its root in the arena, or of its weight.
std::vector<void*> value_addresses(const Plan& plan, const MemoryPlan& memory, std::byte* arena,
                                   const std::vector<const void*>& weights);

/// The kernels' plan for these shapes: found, or made (lowered, placed, prepared). Thread-safe. Ops whose signature was
/// never tuned take the tactic of the nearest tuned op of the same name that offers it, else the first that does.
/// `values`: of inputs that decide shapes, where they are others than those that the engine was built for.
Result<std::shared_ptr<const DevicePlan>> plan_for(EngineState& state, std::size_t device,
                                                   const std::vector<Shape>& shapes, const InputValues& values = {});

/// Splits "provider:id"; the provider, or mismatch if this program has none of that name.
Result<const Provider*> provider_of(const std::string& tactic, std::string& id);
/// Providers in use: all, or those named in LATHE_CUDA_PROVIDERS (comma-separated, to look for a fault); the reference
/// always.
std::vector<const Provider*> usable_providers();

/// On the given one of the state's devices; without one, sessions take them in turns.
Result<std::unique_ptr<BackendSession>> make_cuda_session(std::shared_ptr<EngineState> state,
                                                          std::optional<std::size_t> device = std::nullopt);

} // namespace lathe::cuda
