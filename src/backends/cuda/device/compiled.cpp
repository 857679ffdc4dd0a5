#include "backends/cuda/device/compiled.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "backends/cuda/device/blob.hpp"
#include "backends/cuda/device/kernel_store.hpp"
#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/device/state.hpp"
#include "backends/cuda/device/tuner.hpp"
#include "backends/cuda/plan/audit.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "support/log.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t default_workspace = std::size_t{256} << 20;

class CudaModel final : public CompiledModel {
public:
    explicit CudaModel(std::shared_ptr<EngineState> state) : state_(std::move(state)) {}

    const std::vector<IoInfo>& inputs() const override { return state_->inputs; }
    const std::vector<IoInfo>& outputs() const override { return state_->outputs; }
    Result<std::unique_ptr<BackendSession>> make_session() const override { return make_cuda_session(state_); }
    Result<std::unique_ptr<BackendSession>> make_session_on(int device) const override {
        std::string known;
        for (std::size_t i = 0; i < state_->devices.size(); ++i) {
            const int index = state_->devices[i]->device.index;
            if (index == device) return make_cuda_session(state_, i);
            known += (known.empty() ? "" : ", ") + std::to_string(index);
        }
        return Error{ErrorCode::invalid_argument, "the engine does not run on GPU " + std::to_string(device), "",
                     "it runs on " + known + "; name the GPUs when it is built or loaded"};
    }
    Result<ByteChain> save() const override {
        const std::lock_guard lock(state_->mutex);
        return write_blob(*state_);
    }
    Result<EngineMemory> memory() const override {
        EngineMemory memory;
        for (const Weight& weight : state_->prepared.weights->weights)
            memory.weights += weight.bytes.size();
        memory.activations = state_->arena_bytes;
        memory.workspace = state_->workspace_bytes;
        for (const IoInfo& io : state_->inputs)
            memory.staging += byte_size(io.type, static_cast<std::size_t>(element_count(io.range.max)));
        memory.peak = memory_account().peak(state_->devices.front()->device.index);
        memory.sessions = state_->sessions;
        for (const auto& place : state_->devices)
            memory.devices.push_back(place->device.index);
        return memory;
    }
    Result<BuildReport> report() const override { return state_->report; }

    Result<std::vector<LayerInfo>> layers() const override {
        LATHE_TRY(const auto plan, plan_for(*state_, 0, state_->points().front()));
        std::vector<LayerInfo> layers;
        for (std::size_t i = 0; i < plan->plan.ops.size(); ++i) {
            const FusedOp& op = plan->plan.ops[i];
            layers.push_back(
                {op.name, op.nodes, kind_of(op), op.tf32 ? "tf32" : to_string(op.compute), plan->tactics[i], 0});
        }
        return layers;
    }

private:
    std::shared_ptr<EngineState> state_;
};

Result<void> open_devices(EngineState& state, const std::vector<int>& wanted) {
    const std::vector<int> indices = wanted.empty() ? std::vector<int>{0} : wanted;
    for (const int index : indices) {
        LATHE_TRY(Device found, device(index));
        constexpr int oldest = 80;
        if (found.sm < oldest) {
            return Error{ErrorCode::unsupported,
                         found.name + " has compute capability " + std::to_string(found.sm / 10) + "." +
                             std::to_string(found.sm % 10) + "; 8.0 (Ampere) or newer is needed",
                         "GPU " + std::to_string(index), "use --device cpu"};
        }
        if (!state.devices.empty() && environment_of(found) != environment_of(state.devices.front()->device)) {
            return Error{ErrorCode::unsupported,
                         "GPU " + std::to_string(index) + " (" + found.name + ") is of another kind than GPU " +
                             std::to_string(state.devices.front()->device.index) + " (" +
                             state.devices.front()->device.name + ")",
                         "--devices", "build an engine for each kind"};
        }
        state.devices.push_back(std::make_unique<DeviceState>(std::move(found)));
    }
    state.environment = environment_of(state.devices.front()->device);
    return {};
}

/// Ranges of a profile in the order of the inputs.
Result<std::vector<ShapeRange>> profile_of(const std::map<std::string, ShapeRange>& shapes,
                                           const std::vector<IoInfo>& inputs) {
    std::vector<ShapeRange> profile;
    for (const IoInfo& input : inputs) {
        const auto found = shapes.find(input.name);
        if (found != shapes.end()) {
            profile.push_back(found->second);
            continue;
        }
        const Shape& shape = input.range.min; // the model's own
        if (std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; })) {
            return Error{ErrorCode::invalid_argument, "the input has no fixed shape and none was given", input.name,
                         "give it with --shape"};
        }
        profile.push_back({shape, shape, shape});
    }
    return profile;
}

/// The smallest range that holds all.
ShapeRange hull(const std::vector<std::vector<ShapeRange>>& profiles, std::size_t input) {
    ShapeRange range = profiles.front()[input];
    for (const auto& profile : profiles) {
        for (std::size_t i = 0; i < range.min.size() && i < profile[input].min.size(); ++i) {
            range.min[i] = std::min(range.min[i], profile[input].min[i]);
            range.max[i] = std::max(range.max[i], profile[input].max[i]);
        }
    }
    return range;
}

Result<void> describe_inputs(EngineState& state, const Model& model, const CompileOptions& options) {
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        const Shape shape = input.shape().value_or(Shape{});
        state.inputs.push_back({input.name, input.type, {shape, shape, shape}});
    }
    LATHE_TRY(auto first, profile_of(options.shapes, state.inputs));
    state.profiles.push_back(std::move(first));
    for (const auto& shapes : options.more_profiles) {
        LATHE_TRY(auto further, profile_of(shapes, state.inputs));
        state.profiles.push_back(std::move(further));
    }
    for (std::size_t i = 0; i < state.inputs.size(); ++i) {
        for (const auto& profile : state.profiles) {
            if (profile[i].min.size() == state.profiles.front()[i].min.size()) continue;
            return Error{ErrorCode::invalid_argument, "two profiles have different numbers of dimensions",
                         state.inputs[i].name, "give shapes of the same rank"};
        }
        state.inputs[i].range = hull(state.profiles, i);
    }
    return {};
}

/// Dims that are the same at every tuned point are fixed; the others follow the input, or what it holds.
Result<void> describe_outputs(EngineState& state, const Model& model) {
    std::vector<OpenOutput> open;
    for (const auto& shapes : state.points()) {
        LATHE_TRY(const Plan plan, lower(state.prepared, shapes));
        open.insert(open.end(), plan.open.begin(), plan.open.end());
        if (state.outputs.empty()) {
            for (std::size_t i = 0; i < model.graph.outputs.size(); ++i) {
                const Shape& dims = plan.values[plan.outputs[i]].dims;
                state.outputs.push_back({model.graph.outputs[i].name, model.graph.outputs[i].type, {dims, dims, dims}});
            }
            continue;
        }
        for (std::size_t i = 0; i < state.outputs.size(); ++i) {
            const Shape& dims = plan.values[plan.outputs[i]].dims;
            ShapeRange& range = state.outputs[i].range;
            for (std::size_t axis = 0; axis < range.min.size() && axis < dims.size(); ++axis) {
                if (range.min[axis] != dims[axis]) range.min[axis] = range.opt[axis] = range.max[axis] = -1;
            }
        }
    }
    // What follows the values of inputs is known of the model without them.
    Prepared undecided = state.prepared;
    const auto given = std::erase_if(undecided.model.metadata,
                                     [](const auto& entry) { return entry.first.starts_with(value_prefix); });
    if (given != 0) {
        LATHE_TRY(const Model without, specialise(undecided, state.points().front(), OpenShapes::left));
        for (std::size_t i = 0; i < state.outputs.size(); ++i) {
            const Shape known = without.graph.outputs[i].shape().value_or(Shape{});
            ShapeRange& range = state.outputs[i].range;
            for (std::size_t axis = 0; axis < range.min.size(); ++axis)
                if (axis >= known.size() || known[axis] < 0) range.min[axis] = range.opt[axis] = range.max[axis] = -1;
        }
    }
    for (const OpenOutput& each : open) {
        ShapeRange& range = state.outputs[each.output].range;
        const auto axis = static_cast<std::size_t>(each.axis);
        if (axis < range.min.size()) range.min[axis] = range.opt[axis] = range.max[axis] = -1;
    }
    return {};
}

/// The precision that was asked must be there: an engine named int8 that runs in fp16 helps nobody.
Result<void> audit_precision(EngineState& state, const CompileOptions& options) {
    LATHE_TRY(const Plan plan, lower(state.prepared, state.points().front()));
    const Audit found = audit(plan, options.precision);
    for (const Audit::Row& row : found.rows) {
        state.report.precision_share.emplace(row.precision, found.share(row.precision));
        if (row.precision != lathe::to_string(options.precision))
            state.report.fallbacks.push_back(row.op + " runs in " + row.precision + ": " + row.reason);
    }
    return told_unless_asked(check(found, options.precision, options.allow_fallback), options);
}

/// Memory of one session, by the plans of all tuned points.
Result<void> measure_memory(EngineState& state) {
    for (const auto& shapes : state.points()) {
        LATHE_TRY(const auto plan, plan_for(state, 0, shapes));
        state.arena_bytes = std::max(state.arena_bytes, plan->memory.peak);
        state.report.arena_lower_bound = std::max(state.report.arena_lower_bound, plan->memory.lower_bound);
        state.workspace_bytes = std::max(state.workspace_bytes, plan->workspace);
        for (const auto& kernel : plan->kernels)
            if (const std::string key = kernel->code_key(); !key.empty())
                state.code.emplace(key, KernelStore::of_process().find(key));
    }
    state.report.arena_bytes = state.arena_bytes;
    state.report.workspace_bytes = state.workspace_bytes;
    for (const Weight& weight : state.prepared.weights->weights)
        state.report.weight_bytes += weight.bytes.size();
    return {};
}

std::filesystem::path default_timing_cache() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "lathe" / "timing-cache.json";
    const char* home = std::getenv("HOME");
    if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "lathe" / "timing-cache.json";
    return {};
}

Result<void> tune_with_cache(EngineState& state, const CompileOptions& options) {
    TimingCache cache(state.environment);
    const bool named = !options.timing_cache.empty();
    const std::filesystem::path file = named ? options.timing_cache : default_timing_cache();
    if (!file.empty()) LATHE_CHECK(cache.read(file));
    // Compiled kernels are kept beside it.
    KernelStore::of_process().keep_in(file.empty() ? file : std::filesystem::path(file).replace_extension("kernels"));
    if (!nvrtc_library().found)
        log(LogLevel::warning,
            nvrtc_library().cause + ": kernels are not generated, general ones serve; " + nvrtc_library().cure);
    LATHE_CHECK(tune(state, cache, {options.tune, options.progress, options.check}));
    if (file.empty()) return {};
    std::error_code ignored;
    if (!named) std::filesystem::create_directories(file.parent_path(), ignored);
    auto written = cache.write(file);
    if (written) return {};
    // A file the user named must be written; that of the cache folder is a convenience.
    if (named) return written;
    log(LogLevel::warning, "kernel times were not kept: " + written.error().describe());
    return {};
}

} // namespace

Result<std::unique_ptr<CompiledModel>> compile_model(const Model& model, const CompileOptions& options) {
    const auto start = std::chrono::steady_clock::now();
    auto state = std::make_shared<EngineState>();
    LATHE_CHECK(open_devices(*state, options.devices));
    state->workspace_limit = options.workspace_bytes > 0 ? options.workspace_bytes : default_workspace;
    LATHE_TRY(state->prepared, prepare(model, options.precision));
    LATHE_CHECK(describe_inputs(*state, model, options));
    LATHE_CHECK(describe_outputs(*state, model));
    LATHE_CHECK(audit_precision(*state, options));
    if (const std::string& value = state->prepared.weights->float64; !value.empty()) {
        log(LogLevel::warning, "the model computes in float64 (" + value +
                                   " among others); this engine computes it in " + lathe::to_string(options.precision) +
                                   ", as CPU engines do in float32: its inputs and outputs are converted");
    }
    if (const std::string& name = state->prepared.weights->both_branches; !name.empty()) {
        log(LogLevel::warning, "only running tells which branch of " + name +
                                   " is taken, so both are computed each time; an export for the case that is needed "
                                   "has one");
    }
    LATHE_CHECK(tune_with_cache(*state, options));
    LATHE_CHECK(measure_memory(*state));
    for (const auto& [name, clamped] : state->prepared.weights->clamped)
        state->report.clamped.push_back(clamped);
    state->report.build_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::unique_ptr<CompiledModel>(std::make_unique<CudaModel>(std::move(state)));
}

Result<std::unique_ptr<CompiledModel>> load_model(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                  const CompileOptions& options) {
    LATHE_TRY(const std::shared_ptr<EngineState> state, read_blob(blob, std::move(owner)));
    const std::string built_for = state->environment;
    LATHE_CHECK(open_devices(*state, options.devices));
    if (state->environment != built_for) {
        return Error{ErrorCode::mismatch, "built for " + built_for + ", here " + state->environment, "",
                     "build the engine again"};
    }
    for (const auto& [key, code] : state->code)
        KernelStore::of_process().add(key, code);
    if (options.workspace_bytes > 0) state->workspace_limit = options.workspace_bytes;
    return std::unique_ptr<CompiledModel>(std::make_unique<CudaModel>(state));
}

} // namespace lathe::cuda
