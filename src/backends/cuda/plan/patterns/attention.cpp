#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {

Result<bool> attention(Lowering&, Node&) { return false; }

} // namespace lathe::cuda
