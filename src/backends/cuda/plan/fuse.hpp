#pragma once

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Puts a pointwise program that is the only reader of a concatenation of images into it: the joined value is neither
/// written nor read again (DenseNet's normalisations). The program's other operands are numbers or one a channel.
void fuse_programs(Plan& plan);

/// Programs read what only they read of slices and transpositions where it lies, and those are left without readers.
void read_through_movements(Plan& plan);

} // namespace lathe::cuda
