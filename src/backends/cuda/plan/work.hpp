#pragma once

#include "backends/cuda/plan/ir.hpp"
#include "lathe/engine_types.hpp"

namespace lathe::cuda {

/// What an operation has to do, whichever kernel runs it.
struct Work {
    double activation_bytes = 0; ///< each value read or written once; of a table or a slice, only what is taken
    double weight_bytes = 0;
    double operations = 0; ///< multiplications and additions of its products
};
Work work_of(const FusedOp& op, const Plan& plan);

/// Microseconds that a machine needs for it at least (roofline: Williams, Waterman, Patterson 2009): the longer of
/// moving the bytes and of computing. Activations that fit half of the last cache move at its rate, weights at the
/// memory's. 0 where the machine's limits are not known.
double limit_us(const Work& work, const std::string& precision, const MachineLimits& machine);

} // namespace lathe::cuda
