#pragma once

#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

/// Whether `node` is the first product of an attention that is taken whole; emits it then.
Result<bool> attention(Lowering& lowering, Node& node);

} // namespace lathe::cuda
