#include "backends/cuda/device/network_check.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "backends/cuda/device/bound.hpp"
#include "backends/cuda/device/compare.hpp"
#include "backends/cuda/device/guard.hpp"
#include "backends/cuda/device/handles.hpp"
#include "support/hash.hpp"

namespace lathe::cuda {

namespace {

// A kernel that is wrong in one run of 30 is found with 96 %, where the network is not too slow for so many.
constexpr int most_runs = 100;
constexpr int least_runs = 10;
constexpr auto time_for_runs = std::chrono::seconds(1);

std::string describe(const Deviation& found) {
    if (found.broken > 0) return std::to_string(found.broken) + " elements NaN, infinite or unwritten";
    if (found.by_one + found.by_more > 0) {
        return std::to_string(found.by_more) + " of " + std::to_string(found.count) +
               " integers differ by more than 1, " + std::to_string(found.by_one) + " by 1";
    }
    return "relative error " + short_number(found.relative);
}

class Checker {
public:
    Checker(EngineState& state, DeviceState& place) : state_(state), place_(place) {}

    Result<void> open(const std::vector<Shape>& shapes) {
        LATHE_TRY(source_, plan_for(state_, 0, shapes));
        LATHE_CUDA(cudaSetDevice(place_.device.index), "choosing the GPU");
        LATHE_TRY(stream_, Stream::create());
        const std::size_t peak = source_->memory.peak;
        LATHE_TRY(arena_, DeviceMemory::allocate(peak + guard_bytes, "activations"));
        LATHE_TRY(other_, DeviceMemory::allocate(peak, "activations of the reference"));
        LATHE_TRY(workspace_, DeviceMemory::allocate(source_->workspace + guard_bytes, "workspace"));
        LATHE_TRY(differences_,
                  DeviceMemory::allocate(plan().values.size() * sizeof(kernels::Difference) + 1, "comparing"));
        LATHE_TRY(bound_, bind_plan(state_, 0, source_, arena_, workspace_));
        find_noise();
        others_ = value_addresses(plan(), source_->memory, other_.data(), place_.weights);
        // Modules load at their first launch, which must not happen while a graph is recorded.
        LATHE_CHECK(prepare());
        LATHE_CHECK(bound_->enqueue_kernels(stream_.get(), size()));
        LATHE_CHECK(stream_.synchronize("running the model"));
        return prepare();
    }

    std::size_t size() const { return plan().ops.size(); }

    /// Checks operation `i`; the arena holds what those before it made, and then what it made too.
    Result<std::optional<NetworkFault>> step(std::size_t i) {
        LATHE_TRY(const std::optional<ValueId> infinite, infinite_operand(i));
        if (infinite && !first_infinite_) first_infinite_ = infinite;
        const bool overflowed = infinite.has_value();
        LATHE_CHECK(run_reference(i));
        LATHE_CHECK(run_up_to(i));
        LATHE_TRY(std::string what, compare(i, overflowed));
        if (what.empty()) {
            LATHE_TRY(what, written_behind());
        }
        if (what.empty()) return std::optional<NetworkFault>();
        // An operation before it that is wrong in some runs looks like its fault in one of them.
        LATHE_TRY(auto earlier, first_that_changes(i));
        if (earlier) return earlier;
        return std::optional(fault_of(i, std::move(what)));
    }

    /// The first operation whose result changes from run to run, where that shows in what stands after operation
    /// `last`.
    Result<std::optional<NetworkFault>> first_that_changes(std::size_t last) {
        LATHE_TRY(std::string what, change_between_runs(last));
        if (what.empty()) return std::optional<NetworkFault>();
        std::size_t first = 0; // all before it are the same in all runs
        while (first < last) {
            const std::size_t middle = first + (last - first) / 2;
            LATHE_TRY(std::string found, change_between_runs(middle));
            if (found.empty()) {
                first = middle + 1;
            } else {
                last = middle;
                what = std::move(found);
            }
        }
        return std::optional(fault_of(last, "its result changes from run to run: " + what));
    }

    /// After all steps: NetworkCheck::not_finite. The arena holds the outputs.
    Result<std::string> not_finite() const {
        LATHE_TRY(const auto found, differences(plan().outputs, bound_->values));
        std::string text;
        std::optional<ValueId> first = first_infinite_;
        for (std::size_t v = 0; v < found.size(); ++v) {
            const ValueId id = plan().outputs[v];
            if (found[v].reference_infinite == 0) continue;
            if (!first) first = id;
            const Value& value = plan().values[id];
            text += (text.empty() ? "" : ", ") + value.name + " (" + std::to_string(found[v].reference_infinite) +
                    " of " + std::to_string(element_count(value.dims)) + " numbers)";
        }
        if (text.empty()) return text;
        const ValueId root = root_of(plan(), *first);
        for (const FusedOp& op : plan().ops)
            for (const ValueId made : op.outputs)
                if (made == root) return text + ", the first of them behind " + op.name;
        return text;
    }

private:
    const Plan& plan() const { return source_->plan; }

    NetworkFault fault_of(std::size_t i, std::string what) const {
        const FusedOp& op = plan().ops[i];
        return {i, op.name, signature(op, plan()), source_->tactics[i], std::move(what)};
    }

    /// Operations 0..i as a session runs them, from inputs alone.
    Result<void> run_up_to(std::size_t i) {
        LATHE_CHECK(prepare());
        LATHE_TRY(const Graph graph,
                  Graph::capture(
                      stream_, [&] { return bound_->enqueue_kernels(stream_.get(), i + 1); }, "recording the model"));
        LATHE_CHECK(graph.launch(stream_));
        if (auto ran = stream_.synchronize("running the model"); !ran)
            return std::move(ran).error().in(plan().ops[i].name + " (" + source_->tactics[i] + ")");
        return {};
    }

    /// How what stands after operation `i` differs between runs; empty where it does not.
    Result<std::string> change_between_runs(std::size_t i) {
        const std::vector<ValueId> values = standing(plan(), i);
        const auto start = std::chrono::steady_clock::now();
        LATHE_CHECK(run_up_to(i));
        LATHE_CHECK(copy_arena());
        for (int run = 1; run < most_runs; ++run) {
            if (run >= least_runs && std::chrono::steady_clock::now() - start > time_for_runs) break;
            LATHE_CHECK(run_up_to(i));
            LATHE_TRY(const std::vector<Deviation> found, deviations(values, false));
            for (std::size_t v = 0; v < values.size(); ++v) {
                const Value& value = plan().values[values[v]];
                if (excess(found[v], value.type, allowed_in(i, value)) > changed)
                    return describe(found[v]) + " in run " + std::to_string(run + 1);
            }
        }
        return std::string();
    }

    Result<void> copy_arena() const {
        LATHE_CUDA(
            cudaMemcpyAsync(other_.data(), arena_.data(), other_.size(), cudaMemcpyDeviceToDevice, stream_.get()),
            "copying the activations");
        return {};
    }

    /// Of a value that stands after operation `i`. What is stored in f32 carries the noise of the f16 before it:
    /// kernels may add up in another order each run. Alone, each is held to its own type's limit (see Trial).
    double allowed_in(std::size_t i, const Value& value) const {
        const FusedOp& op = plan().ops[i];
        return std::max(noise_[i], tolerance(op.compute, op.tf32, value.type));
    }
    void find_noise() {
        double most = 0;
        for (const FusedOp& op : plan().ops) {
            for (const ValueId id : op.outputs)
                most = std::max(most, tolerance(op.compute, op.tf32, plan().values[id].type));
            noise_.push_back(most);
        }
    }

    /// Inputs set, everything else NaN.
    Result<void> prepare() const {
        LATHE_CUDA(cudaMemsetAsync(arena_.data(), poison, arena_.size(), stream_.get()), "poisoning the activations");
        LATHE_CUDA(cudaMemsetAsync(workspace_.data(), poison, workspace_.size(), stream_.get()),
                   "poisoning the workspace");
        for (const ValueId id : plan().inputs) {
            const Value& value = plan().values[id];
            const auto [low, high] = integer_range(plan(), id);
            LATHE_CUDA(kernels::launch_fill(bound_->values[id], static_cast<int>(value.type),
                                            value.byte_size() / bytes_of(value.type), 1 + id, low, high, stream_.get()),
                       "filling the inputs");
        }
        return {};
    }

    /// Of what operation `i` reads, a value that holds infinities or NaN, which those before it made: random inputs may
    /// pass float16's range. What becomes of them (NaN behind a Relu, say) differs between kernels that are right.
    Result<std::optional<ValueId>> infinite_operand(std::size_t i) const {
        std::vector<ValueId> read = plan().ops[i].inputs;
        std::ranges::sort(read);
        read.erase(std::unique(read.begin(), read.end()), read.end());
        LATHE_TRY(const auto found, differences(read, bound_->values));
        for (std::size_t v = 0; v < read.size(); ++v)
            if (found[v].reference_infinite > 0) return std::optional(read[v]);
        return std::optional<ValueId>();
    }

    /// The reference's result of operation `i` in the other arena, beside all that was there before it.
    Result<void> run_reference(std::size_t i) {
        const FusedOp& op = plan().ops[i];
        LATHE_CHECK(copy_arena());
        for (const ValueId id : op.outputs) {
            const Value& value = plan().values[id];
            if (!value.part) {
                LATHE_CUDA(cudaMemsetAsync(others_[id], poison, value.byte_size(), stream_.get()), "poisoning");
                continue;
            }
            const std::size_t size = bytes_of(value.type), width = static_cast<std::size_t>(value.dims[1]) * size;
            LATHE_CUDA(cudaMemset2DAsync(others_[id], static_cast<std::size_t>(value.channel_stride) * size, poison,
                                         width, static_cast<std::size_t>(element_count(value.dims)) * size / width,
                                         stream_.get()),
                       "poisoning");
        }
        LATHE_TRY(const std::string tactic, reference_tactic(op, plan(), place_.device));
        std::string id;
        LATHE_TRY(const Provider* const provider, provider_of(tactic, id));
        LATHE_TRY(const auto kernel, provider->prepare(id, op, plan(), place_.device));
        LATHE_TRY(const DeviceMemory space, DeviceMemory::allocate(kernel->workspace_bytes(), "workspace"));
        LATHE_TRY(const auto reference, kernel->bind(Pointers{others_, place_.weights, space.data()}));
        LATHE_CHECK(reference->launch(stream_.get(), false));
        return stream_.synchronize("running the reference kernel of " + op.name);
    }

    /// How these values differ from those at `references`, by value.
    Result<std::vector<kernels::Difference>> differences(const std::vector<ValueId>& values,
                                                         const std::vector<void*>& references) const {
        auto* const at = reinterpret_cast<kernels::Difference*>(differences_.data());
        LATHE_CUDA(cudaMemsetAsync(at, 0, values.size() * sizeof(kernels::Difference), stream_.get()), "comparing");
        for (std::size_t v = 0; v < values.size(); ++v) {
            const Value& value = plan().values[values[v]];
            const bool nhwc = value.layout == Layout::nhwc && value.dims.size() > 1;
            LATHE_CUDA(kernels::launch_compare(
                           references[values[v]], bound_->values[values[v]], static_cast<int>(value.type),
                           value.byte_size() / bytes_of(value.type), nhwc ? static_cast<int>(value.dims[1]) : 1,
                           nhwc ? static_cast<int>(value.channel_stride) : 1, at + v, stream_.get()),
                       "comparing");
        }
        std::vector<kernels::Difference> found(values.size());
        LATHE_CUDA(cudaMemcpyAsync(found.data(), at, found.size() * sizeof(kernels::Difference), cudaMemcpyDeviceToHost,
                                   stream_.get()),
                   "comparing");
        LATHE_CHECK(stream_.synchronize("comparing the network with the reference"));
        return found;
    }

    /// How these values differ from those in the other arena.
    Result<std::vector<Deviation>> deviations(const std::vector<ValueId>& values, bool padding_counts) const {
        LATHE_TRY(const std::vector<kernels::Difference> found, differences(values, others_));
        std::vector<Deviation> list(values.size());
        for (std::size_t v = 0; v < values.size(); ++v) {
            if (found[v].squared_error > 0)
                list[v].relative = std::sqrt(found[v].squared_error / std::max(found[v].squared_reference, 1e-60));
            const bool padded = padding_counts && !plan().values[values[v]].part;
            list[v].broken = found[v].unwritten_or_nan + (padded ? found[v].bad_padding : 0);
            list[v].by_one = found[v].by_one;
            list[v].by_more = found[v].by_more;
            list[v].count =
                static_cast<std::size_t>(std::max<std::int64_t>(1, element_count(plan().values[values[v]].dims)));
        }
        return list;
    }

    /// What is wrong with the values that stand after operation `i`; empty if all are right. Where it read infinities
    /// (`overflowed`) its own result is judged by what is finite.
    Result<std::string> compare(std::size_t i, bool overflowed) const {
        const FusedOp& op = plan().ops[i];
        // Of an image that is written in parts, the part is its own and the whole another's.
        std::vector<ValueId> own, others, wholes;
        for (const ValueId id : standing(plan(), i))
            (std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end() ? own : others).push_back(id);
        for (const ValueId id : op.outputs) {
            if (!plan().values[id].part) continue;
            own.push_back(id);
            wholes.push_back(plan().values[id].alias_of);
        }
        // The reference's padding is what it is: a kernel is judged by its own.
        LATHE_TRY(auto of_own, deviations(own, !source_->tactics[i].starts_with("reference:")));
        for (std::size_t v = 0; v < own.size(); ++v) {
            if (overflowed) of_own[v].broken = 0;
            const Value& value = plan().values[own[v]];
            const double allowed = allowed_in(i, value);
            if (excess(of_own[v], value.type, allowed) > far_off)
                return "its result: " + describe(of_own[v]) + " (allowed " + short_number(allowed) + ")";
        }
        LATHE_TRY(const auto of_others, deviations(others, false));
        for (std::size_t v = 0; v < others.size(); ++v) {
            const Value& value = plan().values[others[v]];
            const double limit = std::ranges::find(wholes, others[v]) == wholes.end() ? changed : far_off;
            if (excess(of_others[v], value.type, allowed_in(i, value)) > limit) {
                return "with it a value of another operation changes (" +
                       (value.name.empty() ? "%" + std::to_string(others[v]) : value.name) +
                       "): " + describe(of_others[v]);
            }
        }
        return std::string();
    }

    /// Which memory behind ours was written to; empty if none.
    Result<std::string> written_behind() const {
        const std::pair<const DeviceMemory*, const char*> places[] = {{&arena_, "the activations"},
                                                                      {&workspace_, "its workspace"}};
        for (const auto& [memory, what] : places) {
            LATHE_TRY(const std::size_t written, bytes_written(memory->data() + memory->size() - guard_bytes, stream_));
            if (written > 0) return "it writes " + std::to_string(written) + " bytes behind " + what;
        }
        return std::string();
    }

    EngineState& state_;
    DeviceState& place_;
    std::shared_ptr<const DevicePlan> source_;
    Stream stream_;
    DeviceMemory arena_, other_, workspace_, differences_;
    std::unique_ptr<Bound> bound_;
    std::vector<void*> others_;
    std::optional<ValueId> first_infinite_; ///< the first that an operation read
    std::vector<double> noise_;             ///< of each operation: the widest limit of it and those before it
};

} // namespace

Result<std::string> reference_tactic(const FusedOp& op, const Plan& plan, const Device& device) {
    std::string why = "the provider is missing";
    for (const Provider* provider : usable_providers()) {
        if (provider->name() != "reference") continue;
        const auto ids = provider->candidates(op, plan, device, Effort::fast, why);
        if (!ids.empty()) return "reference:" + ids.front();
    }
    return Error{ErrorCode::internal, "no reference kernel: " + why, op.name, "report this"};
}

std::string network_key(const DevicePlan& built) {
    Hasher hasher;
    const auto places = [&](const std::vector<ValueId>& values) {
        hasher.update(static_cast<std::int64_t>(values.size()));
        for (const ValueId id : values) {
            hasher.update(static_cast<std::int64_t>(id));
            hasher.update(static_cast<std::int64_t>(built.memory.offsets[id]));
        }
    };
    for (std::size_t i = 0; i < built.plan.ops.size(); ++i) {
        const FusedOp& op = built.plan.ops[i];
        hasher.update(signature(op, built.plan));
        hasher.update(built.tactics[i]);
        places(op.inputs);
        places(op.outputs);
    }
    hasher.update(static_cast<std::int64_t>(built.memory.peak));
    hasher.update(static_cast<std::int64_t>(built.workspace));
    return "steady network " + hasher.hex();
}

Result<NetworkCheck> check_network(EngineState& state, const std::vector<Shape>& shapes, Progress* progress) {
    NetworkCheck found;
    Checker checker(state, *state.devices.front());
    LATHE_CHECK(checker.open(shapes));
    if (checker.size() == 0) return found;
    for (std::size_t i = 0; i < checker.size(); ++i) {
        if (progress != nullptr) LATHE_CHECK(progress->check());
        LATHE_TRY(found.fault, checker.step(i));
        if (found.fault) return found;
    }
    LATHE_TRY(found.not_finite, checker.not_finite());
    LATHE_TRY(found.fault, checker.first_that_changes(checker.size() - 1));
    return found;
}

} // namespace lathe::cuda
