#include "backends/cuda/device/whole_graph.hpp"

#include <algorithm>
#include <chrono>

#include "backends/cuda/device/compare.hpp"
#include "backends/cuda/device/handles.hpp"
#include "support/log.hpp"

namespace lathe::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// The network of one set of shapes on memory of its own, with kernels that can be exchanged.
class Network {
public:
    Network(EngineState& state, DeviceState& place) : state_(state), place_(place) {}

    Result<void> open(const std::vector<Shape>& shapes) {
        LATHE_TRY(source_, plan_for(state_, 0, shapes));
        LATHE_CUDA(cudaSetDevice(place_.device.index), "choosing the GPU");
        LATHE_TRY(stream_, Stream::create());
        LATHE_TRY(start_, Event::create(true));
        LATHE_TRY(end_, Event::create(true));
        LATHE_TRY(arena_, DeviceMemory::allocate(source_->memory.peak, "activations"));
        LATHE_CUDA(cudaMemsetAsync(arena_.data(), 0, arena_.size(), stream_.get()), "clearing the activations");
        // Candidates may need more of it than the plan does.
        LATHE_TRY(workspace_, DeviceMemory::allocate(state_.workspace_limit, "workspace"));
        values_ = value_addresses(source_->plan, source_->memory, arena_.data(), place_.weights);
        for (const auto& kernel : source_->kernels) {
            LATHE_TRY(Step step, bound(*kernel));
            steps_.push_back(std::move(step));
        }
        // Modules load at their first launch, which must not happen while a graph is recorded.
        LATHE_CHECK(fill_inputs());
        LATHE_CHECK(enqueue(steps_));
        LATHE_CHECK(stream_.synchronize("running the model"));
        LATHE_TRY(graph_, record(steps_));
        return {};
    }

    const Plan& plan() const { return source_->plan; }

    /// Ratios of pairs: time with `tactic` for the operations with this signature to time without. Keeps it where that
    /// is clearly faster, and says so in `kept`.
    Result<std::vector<double>> exchange(const std::string& text, const std::string& tactic, bool& kept) {
        kept = false;
        std::string id;
        LATHE_TRY(const Provider* const provider, provider_of(tactic, id));
        std::vector<Step> steps = steps_;
        std::vector<std::unique_ptr<PreparedKernel>> prepared;
        for (std::size_t i = 0; i < plan().ops.size(); ++i) {
            if (signature(plan().ops[i], plan()) != text) continue;
            LATHE_TRY(auto kernel, provider->prepare(id, plan().ops[i], plan(), place_.device));
            if (kernel->workspace_bytes() > workspace_.size()) return std::vector<double>{};
            LATHE_TRY(steps[i], bound(*kernel));
            prepared.push_back(std::move(kernel));
        }
        LATHE_CHECK(fill_inputs());
        LATHE_CHECK(enqueue(steps));
        LATHE_CHECK(stream_.synchronize("running the model"));
        LATHE_TRY(Graph other, record(steps));
        std::vector<double> ratios;
        constexpr std::size_t pairs = 15;
        for (std::size_t i = 0; i < pairs; ++i) {
            // The first of a pair finds the caches and clocks as the other left them: each is first in turn.
            LATHE_TRY(const double first, time(i % 2 == 0 ? graph_ : other));
            LATHE_TRY(const double second, time(i % 2 == 0 ? other : graph_));
            const double without = i % 2 == 0 ? first : second, with = i % 2 == 0 ? second : first;
            if (without > 0) ratios.push_back(with / without);
        }
        if (keeps(ratios)) {
            kept = true;
            steps_ = std::move(steps);
            graph_ = std::move(other);
            for (auto& kernel : prepared)
                kernels_.push_back(std::move(kernel));
        }
        return ratios;
    }

private:
    struct Step {
        std::shared_ptr<BoundKernel> kernel;
        bool waits = false;
    };

    Result<Step> bound(const PreparedKernel& kernel) const {
        LATHE_TRY(auto made, kernel.bind(Pointers{values_, place_.weights, workspace_.data()}));
        return Step{std::move(made), kernel.waits()};
    }

    Result<void> enqueue(const std::vector<Step>& steps) const {
        bool after_waiting = false;
        for (const Step& step : steps) {
            LATHE_CHECK(step.kernel->launch(stream_.get(), step.waits && after_waiting));
            after_waiting = step.waits;
        }
        return {};
    }

    Result<Graph> record(const std::vector<Step>& steps) const {
        return Graph::capture(
            stream_, [&] { return enqueue(steps); }, "recording the model");
    }

    /// Random numbers, and zeros for indices: later operations write over the inputs' memory.
    Result<void> fill_inputs() const {
        for (const ValueId id : plan().inputs) {
            const Value& value = plan().values[id];
            const std::size_t count = value.byte_size() / bytes_of(value.type);
            if (count == 0) continue;
            LATHE_CUDA(
                kernels::launch_fill(values_[id], static_cast<int>(value.type), count, 1 + id, 0, 0, stream_.get()),
                "filling the inputs");
        }
        return {};
    }

    Result<double> time(const Graph& graph) const {
        LATHE_CHECK(fill_inputs());
        LATHE_CHECK(start_.record(stream_));
        LATHE_CHECK(graph.launch(stream_));
        LATHE_CHECK(end_.record(stream_));
        LATHE_CHECK(end_.synchronize("timing the model"));
        return end_.since(start_);
    }

    EngineState& state_;
    DeviceState& place_;
    std::shared_ptr<const DevicePlan> source_;
    Stream stream_;
    Event start_, end_;
    DeviceMemory arena_, workspace_;
    std::vector<void*> values_;
    std::vector<std::unique_ptr<PreparedKernel>> kernels_; ///< that were exchanged: what is bound may refer to them
    std::vector<Step> steps_;
    Graph graph_;
};

} // namespace

Result<std::vector<WholeTrial>> tune_whole(EngineState& state, const std::vector<Shape>& shapes,
                                           const std::map<std::string, std::vector<Timing>>& timings, double seconds,
                                           Progress* progress) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    DeviceState& place = *state.devices.front();
    std::vector<WholeTrial> trials;
    {
        Network network(state, place);
        if (auto opened = network.open(shapes); !opened) {
            if (opened.error().code != ErrorCode::out_of_memory) return std::move(opened).error();
            log(LogLevel::warning, "the whole network is not tuned: " + opened.error().describe());
            return trials;
        }
        std::map<std::string, std::size_t> counts;
        for (const FusedOp& op : network.plan().ops)
            ++counts[signature(op, network.plan())];
        for (const WholeCandidate& candidate : whole_candidates(counts, state.tactics, timings)) {
            for (const std::string& tactic : candidate.tactics) {
                if (Clock::now() >= end) break;
                if (progress != nullptr) LATHE_CHECK(progress->check());
                WholeTrial trial{candidate.signature, tactic, 0, false};
                auto ratios = network.exchange(candidate.signature, tactic, trial.kept);
                if (!ratios) {
                    // A kernel that cannot be had here is no loss; a lost device is.
                    if (const cudaError_t now = cudaDeviceSynchronize(); now != cudaSuccess)
                        return cuda_error(now, "kernel " + tactic + " in the whole network");
                    continue;
                }
                if (ratios->empty()) continue;
                std::sort(ratios->begin(), ratios->end());
                trial.ratio = (*ratios)[ratios->size() / 2];
                if (trial.kept) {
                    auto& order = state.tactics[candidate.signature];
                    std::erase(order, tactic);
                    order.insert(order.begin(), tactic);
                }
                trials.push_back(std::move(trial));
            }
        }
    }
    // Plans that were made before hold the kernels as they were.
    place.plans = LruCache<std::string, std::shared_ptr<const DevicePlan>>(64);
    return trials;
}

} // namespace lathe::cuda
