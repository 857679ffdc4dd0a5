#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Where what lies behind `bytes` begins, if everything begins at multiples of `alignment`.
constexpr std::size_t aligned(std::size_t bytes, std::size_t alignment = 256) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/// The ops, first to last, at which a value must keep its content, by ValueId: from the op that writes it to the last
/// that reads it or an alias of it; model inputs from the start, outputs to the end. Aliases have none of their own.
struct Lifetime {
    std::size_t first = 0, last = 0;
    bool used = false;
};
std::vector<Lifetime> lifetimes(const Plan& plan);

/// Where every value lies in the session's arena. Inputs and outputs of the model have their place in it too.
struct MemoryPlan {
    std::vector<std::size_t> offsets; ///< by ValueId; constants: unused
    std::size_t peak = 0;
    std::size_t lower_bound = 0; ///< largest sum of live bytes at any op
};
/// Values whose lifetimes meet lie apart. `overlap` further ops are added at both ends of a lifetime for engines that
/// run neighbours side by side (0: one stream in order).
MemoryPlan plan_memory(const Plan& plan, std::size_t alignment = 256, std::size_t overlap = 0);

} // namespace lathe::cuda
