#pragma once

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

const char* to_string(Activation act);
const char* to_string(PointOp op);
/// Inputs a point operation takes (0 to 3).
int arity(PointOp op);

} // namespace lathe::cuda
