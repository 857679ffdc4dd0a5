#pragma once

#include <memory>
#include <span>

#include "backends/api/backend.hpp"

namespace lathe::cuda {

/// Prepares the model, times kernels for it, and keeps what was chosen.
/// Errors: unsupported (every node that cannot be taken; too little of it in the precision asked), out_of_memory,
/// not_found (a GPU), cancelled.
Result<std::unique_ptr<CompiledModel>> compile_model(const Model& model, const CompileOptions& options);
/// What `save` gave. Errors: corrupt, mismatch.
Result<std::unique_ptr<CompiledModel>> load_model(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                  const CompileOptions& options);

} // namespace lathe::cuda
