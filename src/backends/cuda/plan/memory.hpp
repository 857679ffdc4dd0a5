#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Where every value lies in the session's arena. Inputs and outputs of the model have their place in it too.
struct MemoryPlan {
    std::vector<std::size_t> offsets; ///< by ValueId; constants: unused
    std::size_t peak = 0;
    std::size_t lower_bound = 0; ///< largest sum of live bytes at any op
};
/// A value lives from the op that writes it to the last that reads it (its aliases' included); model inputs from the
/// start, outputs to the end. `overlap` further ops are added at both ends for engines that run neighbours side by side
/// (0: one stream in order).
MemoryPlan plan_memory(const Plan& plan, std::size_t alignment = 256, std::size_t overlap = 0);

} // namespace lathe::cuda
