#pragma once

#include <span>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

struct InterpretOptions {
    bool round_values = true; ///< store each value in its own type (f16 rounding, int8); false: all in float, to tell
                              ///< fusion from rounding
    bool keep_all = false;    ///< results hold every value, else the outputs alone
};
/// Runs a plan on the CPU with plain loops: sums in double (int8 products in int64), one rounding a stored value. The
/// definition of what kernels must compute. Inputs in the model's order, linear, in the model's types.
Result<std::vector<HostTensor>> interpret(const Plan& plan, std::span<const TensorView> inputs,
                                          const InterpretOptions& options = {});

} // namespace lathe::cuda
