#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

void add_pointwise(LoweringTable&) {}

} // namespace lathe::cuda
