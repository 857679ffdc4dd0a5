#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/candidates.hpp"
#include "backends/cuda/device/compare.hpp"
#include "backends/cuda/device/handles.hpp"
#include "backends/cuda/device/state.hpp"
#include "backends/cuda/tuning/timing_cache.hpp"

namespace lathe::cuda {

/// How the refusal begins of a kernel that needs more workspace than it may have.
inline const std::string needs_workspace = "needs workspace: ";

/// Device memory that is kept and grows.
class Scratch {
public:
    Result<std::byte*> need(std::size_t bytes, const std::string& what);
    void release() { memory_ = DeviceMemory(); }

private:
    DeviceMemory memory_;
};

/// Runs one operation's kernels on memory of its own: whether they are right, and how fast they are.
class Trial {
public:
    Trial(EngineState& state, DeviceState& place) : state_(state), place_(place) {}

    Result<void> open();

    /// Two sets of random inputs and the reference's results on them; copies of the weights, fewer where memory is
    /// short. `task` outlives the measurements. Errors: out_of_memory (all trial memory is free again then).
    Result<void> set_up(const Task& task);

    /// Checks and times one kernel. Errors only where the device's state is lost.
    Result<Timing> measure(const PreparedKernel& kernel, const std::string& tactic, bool is_reference, bool thorough);

    /// Times a kernel that `measure` found right with all in the cache and with nothing in it too.
    Result<void> measure_warm_and_cold(const PreparedKernel& kernel, Timing& timing);

private:
    Result<void> prepare_memory(const Task& task, bool many_copies);
    void place_outputs(std::size_t set, std::size_t slot);
    Result<std::unique_ptr<BoundKernel>> bind(const PreparedKernel& kernel, std::size_t set,
                                              const std::vector<const void*>& weights);
    Result<void> copy_weights(bool many);
    /// Why the result in the third slot is not the reference's of `set`; empty if it is. Sets `error`.
    Result<std::string> compare(std::size_t set, double& error);
    Result<void> attempt(const PreparedKernel& kernel, Timing& timing, bool is_reference, bool thorough);
    /// Microseconds a launch: the median of several replays of a graph of `launches`.
    Result<double> time(const PreparedKernel& kernel, std::size_t launches, bool cold_weights, bool thorough);
    /// Milliseconds of one replay of a graph in which the cache is emptied before each of `launches` launches, or of
    /// the emptying alone.
    Result<double> time_emptied(const BoundKernel* kernel, std::size_t launches);

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

} // namespace lathe::cuda
