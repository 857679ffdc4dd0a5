#pragma once

#include "backends/cuda/device/state.hpp"

namespace lathe::cuda {

/// Puts chains into a lowered plan where tuning found one kernel faster than several (`state.tactics` names kernels for
/// the chain's signature; an empty list says that it is slower). Shapes that were never tuned do as the nearest tuned
/// ones. Call with the mutex held, or alone.
void join_chosen(EngineState& state, Plan& plan);

} // namespace lathe::cuda
