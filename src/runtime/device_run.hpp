#pragma once

// Sessions between tensors that are in the memory of their GPU already, for servers that get them there.

#include <span>
#include <vector>

#include "backends/api/device_copies.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Session::run with inputs in the memory of the session's GPU, where they stay as they are until it returns.
/// Errors: as Session::run; unsupported (CPU).
Result<std::vector<TensorView>> run_on_device(Session& session, std::span<const TensorView> inputs);

/// The outputs of the last run in the GPU's memory, beside those that it gave; valid until the next.
/// Errors: unsupported (CPU).
Result<std::vector<TensorView>> device_outputs(Session& session);

} // namespace lathe
