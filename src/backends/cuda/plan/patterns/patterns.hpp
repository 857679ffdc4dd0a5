#pragma once

#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

/// Whether `node` is the last product of an attention that is taken whole; emits it then.
Result<bool> attention(Lowering& lowering, Node& node);

/// An Add whose sum a LayerNormalization reads: emits both as one then.
Result<bool> add_and_normalise(Lowering& lowering, Node& node);

} // namespace lathe::cuda
