#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

void add_normalization(LoweringTable&) {}

} // namespace lathe::cuda
