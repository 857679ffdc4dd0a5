#pragma once

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Slices and concatenations of images along their channels that need not be copied are places in memory: what is cut
/// out is read where it lies, what is joined is written where it goes (Value::part). An operation goes where all that
/// read or write the parts can do so; a concatenation whose inputs lie side by side already, as in dense blocks, is a
/// part itself.
void place_parts(Plan& plan);

/// Whether an input or output of the operation is a part of an image.
bool touches_parts(const FusedOp& op, const Plan& plan);

} // namespace lathe::cuda
