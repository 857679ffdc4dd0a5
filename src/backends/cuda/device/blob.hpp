#pragma once

#include <memory>
#include <span>

#include "backends/cuda/device/state.hpp"

namespace lathe::cuda {

/// The engine as `CompiledModel::save` gives it: backends/api/compiled_form.hpp's frame around the prepared model with
/// its packed weights.
Result<ByteChain> write_blob(const EngineState& state);
/// Backwards; devices are not filled in. `owner` keeps `bytes` alive, weights are read from them in place.
/// Errors: corrupt, mismatch (another version).
Result<std::shared_ptr<EngineState>> read_blob(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

} // namespace lathe::cuda
