#pragma once

#include "backends/cuda/device/state.hpp"
#include "backends/cuda/tuning/timing_cache.hpp"
#include "lathe/progress.hpp"

namespace lathe::cuda {

struct TuneOptions {
    TuneEffort effort = TuneEffort::standard;
    Progress* progress = nullptr; ///< may be null
    bool check = true;            ///< the finished networks, see check_network
};
/// Chooses a kernel for every operation of the engine's points on its first device: candidates of every provider are
/// compared with the reference kernel on two random inputs, those that agree are timed. Fills `state.tactics` and
/// `state.report.ops`; new timings go to `cache`.
/// Errors: cancelled; verification_failed (kernels that are wrong in the whole network, and no others); unsupported
/// (shapes, nodes); internal, naming the kernel, where one broke the device's state.
Result<void> tune(EngineState& state, TimingCache& cache, const TuneOptions& options);

} // namespace lathe::cuda
