#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

void add_embedding(LoweringTable&) {}

} // namespace lathe::cuda
