#include "backends/cuda/device/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <set>
#include <thread>

#include "backends/cuda/device/compare.hpp"
#include "backends/cuda/device/handles.hpp"
#include "support/log.hpp"
#include "support/thread_pool.hpp"

namespace lathe::cuda {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What an effort allows.
struct Limits {
    std::size_t per_provider;
    double seconds;
    Effort effort;
};
Limits limits_of(TuneEffort effort) {
    switch (effort) {
        case TuneEffort::fast: return {2, 5, Effort::fast};
        case TuneEffort::full: return {1000, 180, Effort::full};
        case TuneEffort::standard: break;
    }
    return {12, 25, Effort::standard};
}

/// A candidate, prepared by a thread beside the one that times.
struct Candidate {
    const Provider* provider = nullptr;
    std::string id;
    std::unique_ptr<PreparedKernel> kernel;
    std::optional<Error> failure;
    bool ready = false;
    std::string tactic() const { return provider->name() + ":" + id; }
};

/// An operation to be tuned: the first of its signature.
struct Task {
    const Plan* plan = nullptr;
    std::size_t op = 0;
    std::string signature;
    std::vector<Candidate> candidates; ///< without the reference
    std::unique_ptr<PreparedKernel> reference;
    std::string reference_tactic;
    std::vector<std::pair<std::string, std::string>> refusals; ///< providers with no candidate, and why

    const FusedOp& fused() const { return plan->ops[op]; }
};

/// The constant that most of an op's weight bytes are in, or none.
WeightId main_weight(const FusedOp& op) {
    if (const auto* conv = std::get_if<Conv>(&op.detail)) return conv->weight;
    if (const auto* depthwise = std::get_if<Depthwise>(&op.detail)) return depthwise->weight;
    if (const auto* gemm = std::get_if<Gemm>(&op.detail)) return gemm->weight;
    return none;
}

/// Least and greatest integer an op may read: indices must lie in their table.
std::pair<std::int64_t, std::int64_t> integer_range(const FusedOp& op, const Plan& plan) {
    std::int64_t most = 1;
    if (const auto* gather = std::get_if<Gather>(&op.detail)) {
        std::int64_t rows = std::numeric_limits<std::int64_t>::max();
        const auto bound = [&](const Shape& dims) {
            const auto axis = static_cast<std::size_t>(gather->axis);
            if (axis < dims.size()) rows = std::min(rows, dims[axis]);
        };
        for (const WeightId table : gather->tables)
            bound(plan.weights->weights[table].dims);
        if (gather->tables.empty() && !op.inputs.empty()) bound(plan.values[op.inputs[0]].dims);
        most = rows == std::numeric_limits<std::int64_t>::max() ? 0 : std::max<std::int64_t>(0, rows - 1);
    }
    return {0, most};
}

/// ‖out - ref‖ / ‖ref‖ up to which a kernel counts as right.
double tolerance(ElementType compute, bool tf32, ElementType stored) {
    double limit = 5e-5; // other orders of summation, Winograd's form; tf32 is at 3e-4
    if (tf32) limit = 2e-3;
    const auto at_least = [&](ElementType type) {
        if (type == ElementType::f16) limit = std::max(limit, 3e-3);
        if (type == ElementType::bf16) limit = std::max(limit, 2e-2);
    };
    at_least(compute);
    at_least(stored);
    return limit;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2g", value);
    return text;
}

/// Prepares candidates on host threads, in the order in which they are wanted.
class Preparation {
public:
    Preparation(std::vector<Task>& tasks, const Device& device) : tasks_(tasks), device_(device) {
        const std::size_t count = std::clamp<std::size_t>(available_cores(), 2, 16) - 1;
        for (std::size_t i = 0; i < count; ++i)
            threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
    ~Preparation() {
        for (auto& thread : threads_)
            thread.request_stop();
        wake_.notify_all();
    }

    /// From now on only the first candidate of each provider is prepared.
    void hurry() { hurried_ = true; }
    /// Until the task's candidates are there.
    void wait(std::size_t task) {
        std::unique_lock lock(mutex_);
        wanted_ = task;
        wake_.notify_all();
        ready_.wait(lock, [&] {
            return std::all_of(tasks_[task].candidates.begin(), tasks_[task].candidates.end(),
                               [](const Candidate& candidate) { return candidate.ready; });
        });
    }

private:
    /// Tasks prepared ahead of the one being timed: their kernels take memory.
    static constexpr std::size_t ahead = 24;

    void work(const std::stop_token& stop) {
        static_cast<void>(cudaSetDevice(device_.index));
        while (!stop.stop_requested()) {
            Candidate* candidate = nullptr;
            const Task* task = nullptr;
            bool first = true;
            {
                std::unique_lock lock(mutex_);
                while (next_task_ < tasks_.size() && next_ == tasks_[next_task_].candidates.size()) {
                    ++next_task_;
                    next_ = 0;
                }
                if (next_task_ == tasks_.size()) return;
                if (next_task_ > wanted_ + ahead) {
                    wake_.wait_for(lock, std::chrono::milliseconds(20));
                    continue;
                }
                task = &tasks_[next_task_];
                candidate = &tasks_[next_task_].candidates[next_++];
                first = candidate == &task->candidates.front() || (candidate - 1)->provider != candidate->provider;
            }
            Result<std::unique_ptr<PreparedKernel>> kernel =
                Error{ErrorCode::unsupported, "not tried: the time for tuning was spent", "", ""};
            if (first || !hurried_)
                kernel = candidate->provider->prepare(candidate->id, task->fused(), *task->plan, device_);
            {
                const std::lock_guard lock(mutex_);
                if (kernel) {
                    candidate->kernel = std::move(kernel).value();
                } else {
                    candidate->failure = std::move(kernel).error();
                }
                candidate->ready = true;
            }
            ready_.notify_all();
        }
    }

    std::vector<Task>& tasks_;
    const Device& device_;
    std::mutex mutex_;
    std::condition_variable ready_, wake_;
    std::size_t next_task_ = 0, next_ = 0, wanted_ = 0;
    std::atomic<bool> hurried_ = false;
    std::vector<std::jthread> threads_;
};

/// Device memory that is kept and grows.
class Scratch {
public:
    Result<std::byte*> need(std::size_t bytes, const std::string& what) {
        if (bytes > memory_.size()) {
            memory_ = DeviceMemory();
            LATHE_TRY(memory_, DeviceMemory::allocate(bytes, what));
        }
        return memory_.data();
    }

private:
    DeviceMemory memory_;
};

constexpr std::size_t alignment = 256;
std::size_t aligned(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

/// Runs one operation's kernels on memory of its own.
class Bench {
public:
    Bench(EngineState& state, DeviceState& place) : state_(state), place_(place) {}

    Result<void> open() {
        LATHE_TRY(stream_, Stream::create());
        LATHE_TRY(start_, Event::create(true));
        LATHE_TRY(end_, Event::create(true));
        LATHE_TRY(std::byte * difference, difference_.need(sizeof(kernels::Difference), "comparing"));
        difference_at_ = reinterpret_cast<kernels::Difference*>(difference);
        flush_bytes_ = place_.device.l2_bytes + place_.device.l2_bytes / 2;
        LATHE_TRY(flush_at_, flush_.need(std::max<std::size_t>(flush_bytes_, 1), "emptying the cache"));
        return {};
    }

    /// Two sets of random inputs and the reference's results on them; copies of the weights.
    Result<void> set_up(const Task& task) {
        task_ = &task;
        best_ = std::numeric_limits<double>::infinity();
        const FusedOp& op = task.fused();
        const Plan& plan = *task.plan;
        read_.clear();
        for (const ValueId id : op.inputs) {
            if (plan.values[root(id)].weight != none) continue;
            if (std::find(read_.begin(), read_.end(), id) == read_.end()) read_.push_back(id);
        }
        std::size_t input_bytes = 0, output_bytes = 0;
        for (const ValueId id : read_)
            input_bytes += aligned(plan.values[id].byte_size());
        for (const ValueId id : op.outputs)
            output_bytes += aligned(plan.values[id].byte_size());
        LATHE_TRY(std::byte * inputs, inputs_.need(2 * input_bytes, "trial inputs"));
        // The reference's two results, and the candidate's.
        LATHE_TRY(std::byte * outputs, outputs_.need(3 * output_bytes, "trial results"));
        output_bytes_ = output_bytes;
        outputs_at_ = outputs;
        const auto [low, high] = integer_range(op, plan);
        for (std::size_t set = 0; set < 2; ++set) {
            values_[set].assign(plan.values.size(), nullptr);
            for (std::size_t id = 0; id < plan.values.size(); ++id) {
                if (const WeightId weight = plan.values[root(static_cast<ValueId>(id))].weight; weight != none)
                    values_[set][id] = const_cast<void*>(place_.weights[weight]);
            }
            std::byte* at = inputs + set * input_bytes;
            for (const ValueId id : read_) {
                const Value& value = plan.values[id];
                values_[set][id] = at;
                LATHE_CUDA(kernels::launch_fill(at, static_cast<int>(value.type),
                                                value.byte_size() / bytes_of(value.type), 1 + set * 1000 + id, low,
                                                high, stream_.get()),
                           "filling trial inputs");
                at += aligned(value.byte_size());
            }
        }
        LATHE_CHECK(copy_weights());
        for (std::size_t set = 0; set < 2; ++set) {
            place_outputs(set, set);
            LATHE_TRY(const auto bound, bind(*task.reference, set, place_.weights));
            LATHE_CUDA(cudaMemsetAsync(outputs + set * output_bytes, 0xFF, output_bytes, stream_.get()), "poisoning");
            LATHE_CHECK(bound->launch(stream_.get(), false));
            LATHE_CHECK(stream_.synchronize("running the reference kernel of " + op.name));
        }
        return {};
    }

    /// Checks and times one kernel. Errors only where the device's state is lost.
    Result<Timing> measure(const PreparedKernel& kernel, const std::string& tactic, bool is_reference, bool thorough) {
        Timing timing;
        timing.tactic = tactic;
        timing.workspace = kernel.workspace_bytes();
        if (timing.workspace > state_.workspace_limit) {
            timing.refused = "needs " + std::to_string(timing.workspace >> 20) + " MiB of workspace";
            return timing;
        }
        auto done = attempt(kernel, timing, is_reference, thorough);
        if (!done) {
            timing.refused = done.error().describe();
            if (cudaGetLastError() != cudaSuccess) timing.refused += " (launch)";
            if (const cudaError_t state = cudaStreamSynchronize(stream_.get()); state != cudaSuccess)
                return cuda_error(state, "kernel " + tactic + " for " + task_->signature +
                                             " (leave its provider out with LATHE_CUDA_PROVIDERS)");
        }
        if (timing.refused.empty() && timing.mixed_us > 0) best_ = std::min(best_, timing.mixed_us);
        return timing;
    }

private:
    ValueId root(ValueId id) const {
        const Plan& plan = *task_->plan;
        while (plan.values[id].alias_of != none)
            id = plan.values[id].alias_of;
        return id;
    }

    void place_outputs(std::size_t set, std::size_t slot) {
        std::byte* at = outputs_at_ + slot * output_bytes_;
        for (const ValueId id : task_->fused().outputs) {
            values_[set][id] = at;
            at += aligned(task_->plan->values[id].byte_size());
        }
    }

    Result<std::unique_ptr<BoundKernel>> bind(const PreparedKernel& kernel, std::size_t set,
                                              const std::vector<const void*>& weights) {
        LATHE_TRY(std::byte * workspace, workspace_.need(kernel.workspace_bytes(), "workspace"));
        return kernel.bind(Pointers{values_[set], weights, workspace});
    }

    /// As many copies of the op's weights as launches are timed at once, so that each finds its own cold.
    Result<void> copy_weights() {
        copies_.assign(1, place_.weights);
        const WeightId id = main_weight(task_->fused());
        if (id == none) return {};
        const std::size_t bytes = aligned(task_->plan->weights->weights[id].bytes.size());
        constexpr std::size_t most_memory = std::size_t{1} << 30;
        const std::size_t count = std::clamp<std::size_t>(most_memory / bytes, 1, most_launches);
        LATHE_TRY(std::byte * memory, weights_.need(bytes * count, "copies of weights"));
        copies_.assign(count, place_.weights);
        for (std::size_t i = 0; i < count; ++i) {
            LATHE_CUDA(cudaMemcpyAsync(memory + i * bytes, place_.weights[id],
                                       task_->plan->weights->weights[id].bytes.size(), cudaMemcpyDeviceToDevice,
                                       stream_.get()),
                       "copying weights");
            copies_[i][id] = memory + i * bytes;
        }
        return {};
    }

    /// Why the result in the third slot is not the reference's of `set`; empty if it is. Sets `error`.
    Result<std::string> compare(std::size_t set, double& error) {
        const FusedOp& op = task_->fused();
        std::size_t offset = 0;
        for (const ValueId id : op.outputs) {
            const Value& value = task_->plan->values[id];
            const bool nhwc = value.layout == Layout::nhwc && value.dims.size() > 1;
            const int channels = nhwc ? static_cast<int>(value.dims[1]) : 1;
            const int stride = nhwc ? static_cast<int>(value.channel_stride) : 1;
            LATHE_CUDA(cudaMemsetAsync(difference_at_, 0, sizeof(kernels::Difference), stream_.get()), "comparing");
            LATHE_CUDA(kernels::launch_compare(outputs_at_ + set * output_bytes_ + offset,
                                               outputs_at_ + 2 * output_bytes_ + offset, static_cast<int>(value.type),
                                               value.byte_size() / bytes_of(value.type), channels, stride,
                                               difference_at_, stream_.get()),
                       "comparing");
            kernels::Difference found;
            LATHE_CUDA(cudaMemcpyAsync(&found, difference_at_, sizeof(found), cudaMemcpyDeviceToHost, stream_.get()),
                       "comparing");
            LATHE_CHECK(stream_.synchronize("running a trial kernel"));
            offset += aligned(value.byte_size());
            if (found.unwritten_or_nan > 0)
                return "leaves " + std::to_string(found.unwritten_or_nan) + " elements NaN, infinite or unwritten";
            if (found.bad_padding > 0)
                return "leaves " + std::to_string(found.bad_padding) + " padding elements NaN or unwritten";
            const double count = static_cast<double>(std::max<std::int64_t>(1, element_count(value.dims)));
            if (found.by_more > 0) {
                error = static_cast<double>(found.by_more) / count;
                return std::to_string(found.by_more) + " of " + short_number(count) + " integers differ by more than 1";
            }
            const bool exact = value.type != ElementType::s8;
            if (static_cast<double>(found.by_one) > (exact ? 0 : 0.01 * count)) {
                error = static_cast<double>(found.by_one) / count;
                return short_number(100 * error) + " % of the integers differ by 1";
            }
            if (found.squared_reference > 0 || found.squared_error > 0) {
                const double relative = std::sqrt(found.squared_error / std::max(found.squared_reference, 1e-60));
                error = std::max(error, relative);
                const double limit = tolerance(op.compute, op.tf32, value.type);
                if (!(relative <= limit))
                    return "wrong: relative error " + short_number(relative) + ", allowed " + short_number(limit);
            }
        }
        return std::string();
    }

    Result<void> attempt(const PreparedKernel& kernel, Timing& timing, bool is_reference, bool thorough) {
        double once_ms = 0;
        for (std::size_t set = 0; set < 2; ++set) {
            place_outputs(set, 2);
            LATHE_TRY(const auto bound, bind(kernel, set, place_.weights));
            LATHE_CUDA(cudaMemsetAsync(outputs_at_ + 2 * output_bytes_, 0xFF, output_bytes_, stream_.get()),
                       "poisoning");
            LATHE_CHECK(start_.record(stream_));
            LATHE_CHECK(bound->launch(stream_.get(), false));
            LATHE_CHECK(end_.record(stream_));
            LATHE_CHECK(stream_.synchronize("running a trial kernel"));
            LATHE_TRY(once_ms, end_.since(start_));
            if (is_reference) continue;
            LATHE_TRY(timing.refused, compare(set, timing.error));
            if (!timing.refused.empty()) return {};
        }
        // A first call far behind is not worth a better number; one launch by itself costs some 5 us more.
        if (once_ms * 1e3 > 3 * best_ + 20) {
            timing.mixed_us = once_ms * 1e3;
            return {};
        }
        const auto launches = static_cast<std::size_t>(
            std::clamp(std::ceil(graph_ms / std::max(once_ms, 1e-3)), 1.0, most_launches * 1.0));
        LATHE_TRY(timing.mixed_us, time(kernel, launches, true, thorough));
        return {};
    }

    /// Microseconds a launch: the median of several replays of a graph of `launches`.
    Result<double> time(const PreparedKernel& kernel, std::size_t launches, bool cold_weights, bool thorough) {
        place_outputs(0, 2);
        std::vector<std::unique_ptr<BoundKernel>> bound;
        for (std::size_t i = 0; i < std::min(launches, cold_weights ? copies_.size() : 1); ++i) {
            LATHE_TRY(auto one, bind(kernel, 0, copies_[i]));
            bound.push_back(std::move(one));
        }
        LATHE_TRY(const Graph graph,
                  Graph::capture(
                      stream_,
                      [&]() -> Result<void> {
                          for (std::size_t i = 0; i < launches; ++i)
                              LATHE_CHECK(bound[i % bound.size()]->launch(stream_.get(), i > 0 && kernel.waits()));
                          return {};
                      },
                      "recording a trial kernel"));
        LATHE_CHECK(graph.launch(stream_));
        std::vector<double> times;
        double total_ms = 0;
        const std::size_t at_least = thorough ? 5 : 1;
        constexpr std::size_t at_most = 40;
        while (times.size() < at_most && (times.size() < at_least || (thorough && total_ms < enough_ms))) {
            if (cold_weights) {
                LATHE_CUDA(cudaMemsetAsync(flush_at_, static_cast<int>(times.size() & 1), flush_bytes_, stream_.get()),
                           "emptying the cache");
            }
            LATHE_CHECK(start_.record(stream_));
            LATHE_CHECK(graph.launch(stream_));
            LATHE_CHECK(end_.record(stream_));
            LATHE_CHECK(end_.synchronize("timing a kernel"));
            LATHE_TRY(const double ms, end_.since(start_));
            times.push_back(ms * 1e3 / static_cast<double>(launches));
            total_ms += ms;
            if (times.size() == 1 && times[0] > drop * best_) break;
        }
        std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
        return times[times.size() / 2];
    }

    static constexpr std::size_t most_launches = 20;
    static constexpr double graph_ms = 0.2, enough_ms = 2, drop = 1.3;

    EngineState& state_;
    DeviceState& place_;
    const Task* task_ = nullptr;
    Stream stream_;
    Event start_, end_;
    Scratch inputs_, outputs_, weights_, workspace_, flush_, difference_;
    std::byte* outputs_at_ = nullptr;
    std::byte* flush_at_ = nullptr;
    kernels::Difference* difference_at_ = nullptr;
    std::size_t output_bytes_ = 0, flush_bytes_ = 0;
    std::vector<ValueId> read_;
    std::array<std::vector<void*>, 2> values_;
    std::vector<std::vector<const void*>> copies_;
    double best_ = 0;
};

/// The best three, as `choose` orders them.
std::vector<std::string> ranking(std::vector<Timing> timings, std::size_t workspace_limit) {
    std::vector<std::string> list;
    constexpr std::size_t kept = 3;
    while (list.size() < kept) {
        const Timing* best = choose(timings, workspace_limit);
        if (best == nullptr) break;
        list.push_back(best->tactic);
        timings.erase(timings.begin() + (best - timings.data()));
    }
    return list;
}

class Tuner {
public:
    Tuner(EngineState& state, TimingCache& cache, const TuneOptions& options)
        : state_(state), cache_(cache), options_(options), limits_(limits_of(options.effort)) {}

    Result<void> run() {
        DeviceState& place = *state_.devices.front();
        LATHE_CUDA(cudaSetDevice(place.device.index), "choosing the GPU");
        LATHE_CHECK(collect(place));
        if (!tasks_.empty()) LATHE_CHECK(time_all(place));
        describe();
        return {};
    }

private:
    Result<void> collect(DeviceState& place) {
        for (const auto& shapes : state_.points()) {
            LATHE_TRY(Plan plan, lower(state_.prepared, shapes));
            plans_.push_back({shapes_text(shapes), std::make_unique<Plan>(std::move(plan))});
        }
        LATHE_CHECK(upload_weights(state_, place));
        struct Wanted {
            const Plan* plan;
            std::size_t op;
            std::string signature;
        };
        std::vector<Wanted> wanted;
        std::set<std::string> seen;
        for (const auto& [shape, plan] : plans_) {
            for (std::size_t i = 0; i < plan->ops.size(); ++i) {
                std::string text = signature(plan->ops[i], *plan);
                if (!seen.insert(text).second) continue;
                if (auto known = cache_.find(text); known && usable(*known)) {
                    timings_[text] = std::move(*known);
                    continue;
                }
                wanted.push_back({plan.get(), i, std::move(text)});
            }
        }
        // Vendor libraries take their time to say what they have: side by side.
        std::vector<std::optional<Error>> failures(wanted.size());
        tasks_.resize(wanted.size());
        ThreadPool pool(std::min<std::size_t>(available_cores(), 16));
        pool.for_each(wanted.size(), [&](std::size_t i) {
            static_cast<void>(cudaSetDevice(place.device.index));
            auto task = make_task(*wanted[i].plan, wanted[i].op, std::move(wanted[i].signature), place.device);
            if (task) {
                tasks_[i] = std::move(task).value();
            } else {
                failures[i] = std::move(task).error();
            }
        });
        for (auto& failure : failures)
            if (failure) return std::move(*failure);
        for (const Task& task : tasks_)
            refusals_[task.signature] = task.refusals;
        return {};
    }

    /// What a cache holds must name a kernel this program has.
    bool usable(const std::vector<Timing>& timings) const {
        const Timing* best = choose(timings, state_.workspace_limit);
        std::string id;
        return best != nullptr && provider_of(best->tactic, id).has_value();
    }

    Result<Task> make_task(const Plan& plan, std::size_t index, std::string text, const Device& device) const {
        Task task;
        task.plan = &plan;
        task.op = index;
        task.signature = std::move(text);
        const FusedOp& op = plan.ops[index];
        for (const Provider* provider : usable_providers()) {
            std::string why;
            const auto ids = provider->candidates(op, plan, device, limits_.effort, why);
            if (provider->name() == "reference") {
                if (ids.empty())
                    return Error{ErrorCode::internal, "no reference kernel: " + why, op.name, "report this"};
                task.reference_tactic = "reference:" + ids.front();
                LATHE_TRY(task.reference, provider->prepare(ids.front(), op, plan, device));
                continue;
            }
            if (ids.empty() && !why.empty()) task.refusals.emplace_back(provider->name() + ":", why);
            for (std::size_t i = 0; i < std::min(ids.size(), limits_.per_provider); ++i) {
                Candidate candidate;
                candidate.provider = provider;
                candidate.id = ids[i];
                task.candidates.push_back(std::move(candidate));
            }
        }
        return task;
    }

    Result<void> time_all(DeviceState& place) {
        if (options_.progress != nullptr) options_.progress->begin("timing kernels", tasks_.size());
        const auto start = Clock::now();
        Bench bench(state_, place);
        LATHE_CHECK(bench.open());
        Preparation preparation(tasks_, place.device);
        std::size_t hurried = 0;
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            if (options_.progress != nullptr) LATHE_CHECK(options_.progress->check());
            Task& task = tasks_[t];
            // Once the time is spent, one quick look at each provider's first guess.
            const bool thorough = seconds_since(start) < limits_.seconds;
            if (!thorough) preparation.hurry();
            hurried += thorough ? 0 : 1;
            preparation.wait(t);
            LATHE_CHECK(bench.set_up(task));
            std::vector<Timing> timings;
            const Provider* last = nullptr;
            bool any = false;
            for (Candidate& candidate : task.candidates) {
                if (candidate.failure) {
                    Timing timing;
                    timing.tactic = candidate.tactic();
                    timing.refused = candidate.failure->describe();
                    timings.push_back(std::move(timing));
                    continue;
                }
                if (!thorough && candidate.provider == last) continue;
                last = candidate.provider;
                LATHE_TRY(Timing timing, bench.measure(*candidate.kernel, candidate.tactic(), false, thorough));
                any = any || timing.refused.empty();
                timings.push_back(std::move(timing));
                candidate.kernel.reset();
            }
            if (!any || task.fused().macs == 0) {
                // The slow one is needed, or may well be as fast as any.
                LATHE_TRY(Timing timing, bench.measure(*task.reference, task.reference_tactic, true, thorough));
                timings.push_back(std::move(timing));
            }
            if (thorough) cache_.store(task.signature, timings);
            timings_[task.signature] = std::move(timings);
            for (Candidate& candidate : task.candidates)
                candidate.kernel.reset();
            task.reference.reset();
            if (options_.progress != nullptr) options_.progress->advance();
        }
        if (options_.progress != nullptr) options_.progress->end();
        if (hurried > 0) {
            log(LogLevel::info, std::to_string(hurried) + " of " + std::to_string(tasks_.size()) +
                                    " operations were tuned in haste, since the time for tuning was spent; build "
                                    "again with the same --timing-cache, or with --tune full");
        }
        return {};
    }

    void describe() {
        for (const auto& [text, timings] : timings_)
            state_.tactics[text] = ranking(timings, state_.workspace_limit);
        for (const auto& [shape, plan] : plans_) {
            for (const FusedOp& op : plan->ops) {
                const std::string text = signature(op, *plan);
                BuildReport::Op row{shape, op.name, text, op.tf32 ? "tf32" : to_string(op.compute), {}};
                const Timing* chosen = choose(timings_[text], state_.workspace_limit);
                for (const Timing& timing : timings_[text]) {
                    row.candidates.push_back({timing.tactic, timing.refused, timing.mixed_us, timing.warm_us,
                                              timing.cold_us, &timing == chosen});
                }
                for (const auto& [provider, why] : refusals_[text])
                    row.candidates.push_back({provider, why, 0, 0, 0, false});
                state_.report.ops.push_back(std::move(row));
            }
        }
    }

    EngineState& state_;
    TimingCache& cache_;
    const TuneOptions& options_;
    Limits limits_;
    std::vector<std::pair<std::string, std::unique_ptr<Plan>>> plans_; ///< by point: its shapes as text
    std::vector<Task> tasks_;
    std::map<std::string, std::vector<Timing>> timings_;
    std::map<std::string, std::vector<std::pair<std::string, std::string>>> refusals_; ///< providers with no candidate
};

} // namespace

Result<void> tune(EngineState& state, TimingCache& cache, const TuneOptions& options) {
    return Tuner(state, cache, options).run();
}

} // namespace lathe::cuda
