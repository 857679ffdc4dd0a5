#include "backends/cuda/device/trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/device/guard.hpp"
#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/tuning/network_check.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t most_launches = 20;
constexpr double graph_ms = 0.2, enough_ms = 2, drop = 1.3;

/// The constants that most of an op's weight bytes are in.
std::vector<WeightId> main_weights(const FusedOp& op) {
    if (const auto* conv = std::get_if<Conv>(&op.detail)) return {conv->weight};
    if (const auto* depthwise = std::get_if<Depthwise>(&op.detail)) return {depthwise->weight};
    if (const auto* gemm = std::get_if<Gemm>(&op.detail)) return {gemm->weight};
    std::vector<WeightId> all;
    if (const auto* chain = std::get_if<Chain>(&op.detail)) {
        for (const FusedOp& part : chain->parts)
            for (const WeightId id : main_weights(part))
                all.push_back(id);
    }
    return all;
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

std::size_t room_for(std::size_t bytes) { return aligned(std::max<std::size_t>(bytes, 1)); }

} // namespace

Result<std::byte*> Scratch::need(std::size_t bytes, const std::string& what) {
    if (bytes > memory_.size()) {
        memory_ = DeviceMemory();
        LATHE_TRY(memory_, DeviceMemory::allocate(bytes, what));
    }
    return memory_.data();
}

Result<void> Trial::open() {
    LATHE_TRY(stream_, Stream::create());
    LATHE_TRY(start_, Event::create(true));
    LATHE_TRY(end_, Event::create(true));
    LATHE_TRY(std::byte * difference, difference_.need(sizeof(kernels::Difference), "comparing"));
    difference_at_ = reinterpret_cast<kernels::Difference*>(difference);
    flush_bytes_ = place_.device.l2_bytes + place_.device.l2_bytes / 2;
    LATHE_TRY(flush_at_, flush_.need(std::max<std::size_t>(flush_bytes_, 1), "emptying the cache"));
    return {};
}

Result<void> Trial::set_up(const Task& task) {
    auto done = prepare_memory(task, true);
    for (const bool many_copies : {true, false}) {
        if (done || done.error().code != ErrorCode::out_of_memory) return done;
        // What earlier operations needed may be what is missing now.
        static_cast<void>(stream_.synchronize("giving trial memory back"));
        for (Scratch* scratch : {&inputs_, &outputs_, &weights_, &workspace_})
            scratch->release();
        done = prepare_memory(task, many_copies);
    }
    if (!done) {
        static_cast<void>(stream_.synchronize("giving trial memory back"));
        for (Scratch* scratch : {&inputs_, &outputs_, &weights_, &workspace_})
            scratch->release();
    }
    return done;
}

Result<void> Trial::prepare_memory(const Task& task, bool many_copies) {
    task_ = &task;
    best_ = std::numeric_limits<double>::infinity();
    const FusedOp& op = task.fused();
    const Plan& plan = *task.plan;
    read_.clear();
    for (const ValueId id : op.inputs) {
        if (plan.values[root_of(plan, id)].weight != none) continue;
        if (std::find(read_.begin(), read_.end(), id) == read_.end()) read_.push_back(id);
    }
    std::size_t input_bytes = 0, output_bytes = 0;
    for (const ValueId id : read_)
        input_bytes += room_for(plan.values[id].byte_size());
    for (const ValueId id : op.outputs)
        output_bytes += room_for(plan.values[id].byte_size());
    LATHE_TRY(std::byte * inputs, inputs_.need(2 * input_bytes, "trial inputs"));
    // The reference's two results, and the candidate's.
    LATHE_TRY(std::byte * outputs, outputs_.need(3 * output_bytes + guard_bytes, "trial results"));
    output_bytes_ = output_bytes;
    outputs_at_ = outputs;
    const auto [low, high] = integer_range(op, plan);
    for (std::size_t set = 0; set < 2; ++set) {
        values_[set].assign(plan.values.size(), nullptr);
        for (std::size_t id = 0; id < plan.values.size(); ++id) {
            if (const WeightId weight = plan.values[root_of(plan, static_cast<ValueId>(id))].weight; weight != none)
                values_[set][id] = const_cast<void*>(place_.weights[weight]);
        }
        std::byte* at = inputs + set * input_bytes;
        for (const ValueId id : read_) {
            const Value& value = plan.values[id];
            values_[set][id] = at;
            LATHE_CUDA(kernels::launch_fill(at, static_cast<int>(value.type), value.byte_size() / bytes_of(value.type),
                                            1 + set * 1000 + id, low, high, stream_.get()),
                       "filling trial inputs");
            at += room_for(value.byte_size());
        }
    }
    LATHE_CHECK(copy_weights(many_copies));
    for (std::size_t set = 0; set < 2; ++set) {
        place_outputs(set, set);
        LATHE_TRY(const auto bound, bind(*task.reference, set, place_.weights));
        LATHE_CUDA(cudaMemsetAsync(outputs + set * output_bytes, 0xFF, output_bytes, stream_.get()), "poisoning");
        LATHE_CHECK(bound->launch(stream_.get(), false));
        LATHE_CHECK(stream_.synchronize("running the reference kernel of " + op.name));
    }
    return {};
}

Result<Timing> Trial::measure(const PreparedKernel& kernel, const std::string& tactic, bool is_reference,
                              bool thorough) {
    Timing timing;
    timing.tactic = tactic;
    timing.workspace = kernel.workspace_bytes();
    if (timing.workspace > state_.workspace_limit) {
        timing.refused = needs_workspace + std::to_string(timing.workspace >> 20) + " MiB";
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

void Trial::place_outputs(std::size_t set, std::size_t slot) {
    std::byte* at = outputs_at_ + slot * output_bytes_;
    for (const ValueId id : task_->fused().outputs) {
        values_[set][id] = at;
        at += room_for(task_->plan->values[id].byte_size());
    }
}

Result<std::unique_ptr<BoundKernel>> Trial::bind(const PreparedKernel& kernel, std::size_t set,
                                                 const std::vector<const void*>& weights) {
    LATHE_TRY(std::byte * workspace, workspace_.need(kernel.workspace_bytes() + guard_bytes, "workspace"));
    return kernel.bind(Pointers{values_[set], weights, workspace});
}

/// As many copies of the op's weights as launches are timed at once, so that each finds its own cold.
Result<void> Trial::copy_weights(bool many) {
    copies_.assign(1, place_.weights);
    const std::vector<WeightId> ids = main_weights(task_->fused());
    const auto bytes_of_weight = [&](WeightId id) { return task_->plan->weights->weights[id].bytes.size(); };
    std::size_t bytes = 0;
    for (const WeightId id : ids)
        bytes += room_for(bytes_of_weight(id));
    if (bytes == 0) return {};
    constexpr std::size_t most_memory = std::size_t{1} << 30;
    const std::size_t count = many ? std::clamp<std::size_t>(most_memory / bytes, 1, most_launches) : 1;
    LATHE_TRY(std::byte * memory, weights_.need(bytes * count, "copies of weights"));
    copies_.assign(count, place_.weights);
    for (std::size_t i = 0; i < count; ++i) {
        for (const WeightId id : ids) {
            LATHE_CUDA(cudaMemcpyAsync(memory, place_.weights[id], bytes_of_weight(id), cudaMemcpyDeviceToDevice,
                                       stream_.get()),
                       "copying weights");
            copies_[i][id] = memory;
            memory += room_for(bytes_of_weight(id));
        }
    }
    return {};
}

Result<std::string> Trial::compare(std::size_t set, double& error) {
    const FusedOp& op = task_->fused();
    std::size_t offset = 0;
    double factors = 0; // a group's shift is a mean that nearly cancels, times its factor
    for (const ValueId id : op.outputs) {
        const Value& value = task_->plan->values[id];
        const bool nhwc = value.layout == Layout::nhwc && value.dims.size() > 1;
        const int channels = nhwc ? static_cast<int>(value.dims[1]) : 1;
        const int stride = nhwc ? static_cast<int>(value.channel_stride) : 1;
        LATHE_CUDA(cudaMemsetAsync(difference_at_, 0, sizeof(kernels::Difference), stream_.get()), "comparing");
        LATHE_CUDA(kernels::launch_compare(outputs_at_ + set * output_bytes_ + offset,
                                           outputs_at_ + 2 * output_bytes_ + offset, static_cast<int>(value.type),
                                           value.byte_size() / bytes_of(value.type), channels, stride, difference_at_,
                                           stream_.get()),
                   "comparing");
        kernels::Difference found;
        LATHE_CUDA(cudaMemcpyAsync(&found, difference_at_, sizeof(found), cudaMemcpyDeviceToHost, stream_.get()),
                   "comparing");
        LATHE_CHECK(stream_.synchronize("running a trial kernel"));
        offset += room_for(value.byte_size());
        if (found.unwritten_or_nan > 0)
            return "leaves " + std::to_string(found.unwritten_or_nan) + " elements NaN, infinite or unwritten";
        // What lies between a part's pixels belongs to others: it must be as it was, which shows in poisoned floats.
        if (value.part && is_real(value.type)) {
            const auto pixels = static_cast<std::uint64_t>(element_count(value.dims) / value.dims[1]);
            const std::uint64_t between = (pixels - 1) * static_cast<std::uint64_t>(stride - channels);
            if (found.bad_padding != between)
                return "writes " + std::to_string(between - found.bad_padding) + " elements between its pixels";
        } else if (found.bad_padding > 0)
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
            const double relative =
                std::sqrt(found.squared_error / std::max({found.squared_reference, factors, 1e-60}));
            if (std::holds_alternative<GroupFactors>(op.detail)) factors = found.squared_reference;
            error = std::max(error, relative);
            const double limit = tolerance(op.compute, op.tf32, value.type);
            if (!(relative <= limit))
                return "wrong: relative error " + short_number(relative) + ", allowed " + short_number(limit);
        }
    }
    return std::string();
}

Result<void> Trial::attempt(const PreparedKernel& kernel, Timing& timing, bool is_reference, bool thorough) {
    double once_ms = 0;
    for (std::size_t set = 0; set < 2; ++set) {
        place_outputs(set, 2);
        LATHE_TRY(const auto bound, bind(kernel, set, place_.weights));
        std::byte* const result = outputs_at_ + 2 * output_bytes_;
        LATHE_CUDA(cudaMemsetAsync(result, poison, output_bytes_ + guard_bytes, stream_.get()), "poisoning");
        // In a network the workspace holds what the operation before left there.
        LATHE_TRY(std::byte* const workspace, workspace_.need(timing.workspace + guard_bytes, "workspace"));
        LATHE_CUDA(cudaMemsetAsync(workspace, poison, timing.workspace + guard_bytes, stream_.get()),
                   "poisoning the workspace");
        LATHE_CHECK(start_.record(stream_));
        LATHE_CHECK(bound->launch(stream_.get(), false));
        LATHE_CHECK(end_.record(stream_));
        LATHE_CHECK(stream_.synchronize("running a trial kernel"));
        LATHE_TRY(once_ms, end_.since(start_));
        if (is_reference) continue;
        LATHE_TRY(timing.refused, compare(set, timing.error));
        if (!timing.refused.empty()) return {};
        // Behind both lies memory of others in a network.
        LATHE_TRY(const std::size_t behind_result, bytes_written(result + output_bytes_, stream_));
        LATHE_TRY(const std::size_t behind_workspace, bytes_written(workspace + timing.workspace, stream_));
        if (behind_result + behind_workspace > 0) {
            timing.refused = "writes " + std::to_string(behind_result) + " bytes behind its result and " +
                             std::to_string(behind_workspace) + " behind its workspace";
            return {};
        }
    }
    // A first call far behind is not worth a better number; one launch by itself costs some 5 us more.
    if (once_ms * 1e3 > 3 * best_ + 20) {
        timing.mixed_us = once_ms * 1e3;
        return {};
    }
    const auto launches =
        static_cast<std::size_t>(std::clamp(std::ceil(graph_ms / std::max(once_ms, 1e-3)), 1.0, most_launches * 1.0));
    LATHE_TRY(timing.mixed_us, time(kernel, launches, true, thorough));
    return {};
}

Result<double> Trial::time(const PreparedKernel& kernel, std::size_t launches, bool cold_weights, bool thorough) {
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

Result<void> Trial::measure_warm_and_cold(const PreparedKernel& kernel, Timing& timing) {
    const double expected_ms = std::max(timing.mixed_us, 1.0) / 1e3;
    const auto launches =
        static_cast<std::size_t>(std::clamp(std::ceil(graph_ms / expected_ms), 1.0, most_launches * 1.0));
    LATHE_TRY(timing.warm_us, time(kernel, launches, false, true));
    place_outputs(0, 2);
    LATHE_TRY(const auto bound, bind(kernel, 0, place_.weights));
    constexpr std::size_t cold_launches = 4;
    LATHE_TRY(const double with, time_emptied(bound.get(), cold_launches));
    LATHE_TRY(const double without, time_emptied(nullptr, cold_launches));
    timing.cold_us = std::max(0.0, with - without) * 1e3 / static_cast<double>(cold_launches);
    return {};
}

Result<double> Trial::time_emptied(const BoundKernel* kernel, std::size_t launches) {
    LATHE_TRY(const Graph graph,
              Graph::capture(
                  stream_,
                  [&]() -> Result<void> {
                      for (std::size_t i = 0; i < launches; ++i) {
                          LATHE_CUDA(cudaMemsetAsync(flush_at_, static_cast<int>(i & 1), flush_bytes_, stream_.get()),
                                     "emptying the cache");
                          if (kernel != nullptr) LATHE_CHECK(kernel->launch(stream_.get(), false));
                      }
                      return {};
                  },
                  "recording a trial kernel"));
    std::vector<double> times;
    constexpr std::size_t replays = 5;
    for (std::size_t i = 0; i < replays; ++i) {
        LATHE_CHECK(start_.record(stream_));
        LATHE_CHECK(graph.launch(stream_));
        LATHE_CHECK(end_.record(stream_));
        LATHE_CHECK(end_.synchronize("timing a kernel"));
        LATHE_TRY(const double ms, end_.since(start_));
        times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + replays / 2, times.end());
    return times[replays / 2];
}

} // namespace lathe::cuda
