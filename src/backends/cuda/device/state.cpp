#include "backends/cuda/device/state.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "backends/cuda/device/chain_choice.hpp"
#include "backends/cuda/device/libraries.hpp"
#include "kernels_digest.hpp"
#include "support/log.hpp"
#include "support/thread_pool.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t weight_alignment = 256;

/// How much work an op is: to tell which tuned shape is the nearest.
double size_of(const FusedOp& op, const Plan& plan) {
    double bytes = 0;
    for (const ValueId id : op.outputs)
        bytes += static_cast<double>(plan.values[id].byte_size());
    return op.macs > 0 ? static_cast<double>(op.macs) : bytes;
}

/// Tactics to try for an op, best first.
class Choice {
public:
    explicit Choice(EngineState& state) : state_(state) {}

    std::vector<std::string> tactics(const FusedOp& op, const Plan& plan, const Device& device) const {
        std::vector<std::string> list;
        const auto tuned = state_.tactics.find(signature(op, plan));
        if (tuned != state_.tactics.end()) list = tuned->second;
        if (list.empty()) list = nearest(op, plan, device);
        return list;
    }

    /// The first guess of every provider, for ops of which nothing better is known.
    static std::vector<std::string> guesses(const FusedOp& op, const Plan& plan, const Device& device) {
        std::vector<std::string> list;
        for (const Provider* provider : usable_providers()) {
            std::string why;
            const auto ids = provider->candidates(op, plan, device, Effort::fast, why);
            if (!ids.empty()) list.push_back(provider->name() + ":" + ids.front());
        }
        return list;
    }

private:
    /// What the tuned shapes of the same op use, nearest first, where it is offered for this shape too.
    std::vector<std::string> nearest(const FusedOp& op, const Plan& plan, const Device& device) const {
        std::vector<std::pair<double, std::string>> found;
        const double size = size_of(op, plan);
        const auto& known = tuned_ops();
        const auto range = known.equal_range(op.name);
        for (auto it = range.first; it != range.second; ++it)
            found.emplace_back(std::abs(std::log(it->second.first / std::max(size, 1.0))), it->second.second);
        std::sort(found.begin(), found.end());
        std::vector<std::string> list;
        for (const auto& [distance, tactic] : found) {
            std::string id;
            const auto provider = provider_of(tactic, id);
            if (!provider) continue;
            std::string why;
            const auto ids = (*provider)->candidates(op, plan, device, Effort::full, why);
            if (std::find(ids.begin(), ids.end(), id) != ids.end()) list.push_back(tactic);
        }
        return list;
    }

    const std::multimap<std::string, std::pair<double, std::string>>& tuned_ops() const {
        if (filled_) return tuned_;
        filled_ = true;
        for (const auto& shapes : state_.points()) {
            auto plan = lower(state_.prepared, shapes);
            if (!plan) continue;
            join_chosen(state_, *plan);
            for (const FusedOp& op : plan->ops) {
                const auto found = state_.tactics.find(signature(op, *plan));
                if (found != state_.tactics.end() && !found->second.empty())
                    tuned_.emplace(op.name, std::pair{size_of(op, *plan), found->second.front()});
            }
        }
        return tuned_;
    }

    EngineState& state_;
    mutable bool filled_ = false;
    mutable std::multimap<std::string, std::pair<double, std::string>> tuned_;
};

Result<std::shared_ptr<const DevicePlan>> make_plan(EngineState& state, DeviceState& device,
                                                    const std::vector<Shape>& shapes, const InputValues& values) {
    auto made = std::make_shared<DevicePlan>();
    if (values.empty()) {
        LATHE_TRY(made->plan, lower(state.prepared, shapes));
    } else {
        Prepared given = state.prepared; // weights are shared
        set_values(given.model, values);
        LATHE_TRY(made->plan, lower(given, shapes));
    }
    join_chosen(state, made->plan);
    const Plan& plan = made->plan;
    LATHE_CHECK(upload_weights(state, device));
    made->memory = plan_memory(plan);
    made->tactics.resize(plan.ops.size());
    made->kernels.resize(plan.ops.size());
    const Choice choice(state);
    std::vector<std::vector<std::string>> tries;
    for (const FusedOp& op : plan.ops)
        tries.push_back(choice.tactics(op, plan, device.device));
    // Vendor libraries compile their plans on the host: side by side.
    std::vector<std::optional<Error>> failures(plan.ops.size());
    ThreadPool pool(std::min<std::size_t>(available_cores(), 8));
    pool.for_each(plan.ops.size(), [&](std::size_t i) {
        if (const cudaError_t set = cudaSetDevice(device.device.index); set != cudaSuccess) {
            failures[i] = cuda_error(set, "choosing the GPU");
            return;
        }
        const auto take_first = [&](const std::vector<std::string>& tactics) {
            for (const std::string& tactic : tactics) {
                if (state.bans.holds(signature(plan.ops[i], plan), tactic)) continue;
                std::string id;
                auto provider = provider_of(tactic, id);
                if (!provider) {
                    failures[i] = std::move(provider).error();
                    continue;
                }
                auto kernel = (*provider)->prepare(id, plan.ops[i], plan, device.device);
                if (kernel && (*kernel)->workspace_bytes() <= state.workspace_limit) {
                    made->kernels[i] = std::move(kernel).value();
                    made->tactics[i] = tactic;
                    return true;
                }
                if (!kernel) failures[i] = std::move(kernel).error();
            }
            return false;
        };
        if (take_first(tries[i]) || take_first(Choice::guesses(plan.ops[i], plan, device.device))) return;
        if (!failures[i]) {
            failures[i] = Error{ErrorCode::unsupported, "no kernel takes this operation within the workspace limit",
                                plan.ops[i].name, "raise --workspace"};
        }
    });
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        if (made->kernels[i] == nullptr) return std::move(*failures[i]).in(plan.ops[i].name);
        if (!tries[i].empty() && made->tactics[i] != tries[i].front()) {
            log(LogLevel::debug, plan.ops[i].name + ": " + tries[i].front() + " is not available, " + made->tactics[i] +
                                     " is used" + (failures[i] ? ": " + failures[i]->describe() : std::string()));
        }
        made->workspace = std::max(made->workspace, made->kernels[i]->workspace_bytes());
    }
    return std::shared_ptr<const DevicePlan>(std::move(made));
}

} // namespace

std::string environment_of(const Device& device) {
    int runtime = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    const Library& cudnn = cudnn_library();
    const Library& cublaslt = cublaslt_library();
    return device.name + "; sm_" + std::to_string(device.sm) + "; " + std::to_string(device.multiprocessors) +
           " SMs; driver " + device.driver + "; cuda " + std::to_string(runtime / 1000) + "." +
           std::to_string(runtime / 10 % 100) + "; cudnn " + (cudnn.found ? cudnn.version : "absent") + "; cublasLt " +
           (cublaslt.found ? cublaslt.version : "absent") + "; kernels " + lathe_kernels_digest;
}

std::vector<std::vector<Shape>> EngineState::points() const {
    std::vector<std::vector<Shape>> list;
    for (const auto& profile : profiles) {
        for (Shape ShapeRange::*which : {&ShapeRange::opt, &ShapeRange::min, &ShapeRange::max}) {
            std::vector<Shape> shapes;
            for (const ShapeRange& range : profile)
                shapes.push_back(range.*which);
            if (std::find(list.begin(), list.end(), shapes) == list.end()) list.push_back(std::move(shapes));
        }
    }
    return list;
}

bool EngineState::covers(const std::vector<Shape>& shapes) const {
    return std::any_of(profiles.begin(), profiles.end(), [&](const auto& profile) {
        for (std::size_t i = 0; i < shapes.size(); ++i)
            if (!profile[i].contains(shapes[i])) return false;
        return true;
    });
}

std::string shapes_key(const std::vector<Shape>& shapes, const InputValues& values) {
    std::string key;
    for (const Shape& shape : shapes) {
        for (const std::int64_t size : shape)
            key += std::to_string(size) + ",";
        key += ";";
    }
    for (const auto& [name, text] : values)
        key += name + "=" + text + ";";
    return key;
}

std::string shapes_text(const std::vector<Shape>& shapes) {
    std::string text;
    for (const Shape& shape : shapes)
        text += (text.empty() ? "" : " ") + lathe::to_string(shape);
    return text;
}

Result<void> upload_weights(EngineState& state, DeviceState& device) {
    const std::vector<Weight>& all = state.prepared.weights->weights;
    if (device.weights.size() == all.size()) return {};
    LATHE_CUDA(cudaSetDevice(device.device.index), "choosing the GPU");
    std::size_t total = 0;
    for (std::size_t i = device.weights.size(); i < all.size(); ++i)
        total += aligned(all[i].bytes.size());
    LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(total, "weights"));
    std::size_t offset = 0;
    for (std::size_t i = device.weights.size(); i < all.size(); ++i) {
        std::byte* to = memory.data() + offset;
        if (!all[i].bytes.empty()) {
            LATHE_CUDA(cudaMemcpy(to, all[i].bytes.data(), all[i].bytes.size(), cudaMemcpyHostToDevice),
                       "copying weights to the GPU");
        }
        device.weights.push_back(to);
        offset += aligned(all[i].bytes.size());
    }
    // A copy from pageable memory may return before the GPU has it, and sessions' streams do not wait for this one.
    LATHE_CUDA(cudaStreamSynchronize(nullptr), "copying weights to the GPU");
    device.weight_memory.push_back(std::move(memory));
    return {};
}

std::vector<void*> value_addresses(const Plan& plan, const MemoryPlan& memory, std::byte* arena,
                                   const std::vector<const void*>& weights) {
    std::vector<void*> addresses(plan.values.size(), nullptr);
    for (ValueId i = 0; i < plan.values.size(); ++i) {
        const ValueId root = root_of(plan, i);
        const Value& value = plan.values[root];
        if (value.weight != none) {
            // Kernels read constants through the same table as activations; none writes them.
            addresses[i] = const_cast<void*>(weights[value.weight]);
        } else {
            addresses[i] = arena + memory.offsets[i];
        }
    }
    return addresses;
}

std::vector<const Provider*> usable_providers() {
    const char* only = std::getenv("LATHE_CUDA_PROVIDERS");
    const std::string names = only == nullptr ? "" : "," + std::string(only) + ",";
    std::vector<const Provider*> list;
    for (const auto& provider : providers()) {
        if (names.empty() || provider->name() == "reference" || names.find("," + provider->name() + ",") != names.npos)
            list.push_back(provider.get());
    }
    return list;
}

Result<const Provider*> provider_of(const std::string& tactic, std::string& id) {
    const std::size_t colon = tactic.find(':');
    const std::string name = tactic.substr(0, colon);
    id = colon == std::string::npos ? "" : tactic.substr(colon + 1);
    for (const Provider* provider : usable_providers()) {
        if (provider->name() == name) return provider;
    }
    return Error{ErrorCode::mismatch, "this program has no kernels of \"" + name + "\"", tactic,
                 "build the engine again"};
}

Result<std::shared_ptr<const DevicePlan>> plan_for(EngineState& state, std::size_t device,
                                                   const std::vector<Shape>& shapes, const InputValues& values) {
    const std::string key = shapes_key(shapes, values);
    const std::lock_guard lock(state.mutex);
    DeviceState& place = *state.devices[device];
    if (const auto* found = place.plans.find(key)) return *found;
    LATHE_TRY(auto made, make_plan(state, place, shapes, values));
    place.plans.insert(key, made);
    return made;
}

} // namespace lathe::cuda
