#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda {

/// Ops of a plan, by index, that one kernel could run: see Chain.
struct ChainSite {
    std::optional<std::size_t> shortcut;
    std::size_t adding = 0;
    std::optional<std::size_t> behind;
    std::vector<std::size_t> squeeze{}; ///< instead of those: the average and two convolutions, `adding` the last

    std::vector<std::size_t> ops() const; ///< in order of execution
};

/// Where chains could be, those of more ops first; sites may share ops. All are 1x1 convolutions in int8 or f16, stored
/// in that type without padding channels, with activation none, relu or clip. What adds has a residual of its type; the
/// shortcut has none, and nothing else reads its result; what lies behind has none, steps by one and reads the sum,
/// which others may read too. Squeeze and excite: an average over the pixels of an image, f32, f16 or bf16, and two 1x1
/// convolutions in that type without residuals, each result read by the next alone.
std::vector<ChainSite> chain_sites(const Plan& plan);

/// Whether three ops are squeeze and excite, whoever else reads their results.
bool is_squeeze(const Plan& plan, const FusedOp& average, const FusedOp& first, const FusedOp& second);

/// The op that stands for a site's ops.
FusedOp chain_of(const Plan& plan, const ChainSite& site);

/// Puts chains in the place of their ops; of sites that share ops, the first is taken. Order of execution stays right:
/// a shortcut moves down to the op that adds, the one behind up to it.
void join_chains(Plan& plan, const std::vector<ChainSite>& sites);

} // namespace lathe::cuda
