#pragma once

#include <cstddef>
#include <vector>

namespace lathe::cuda {

/// One kernel for several operations of a network, by index.
struct ChainOption {
    std::vector<std::size_t> ops;
    double us = 0; ///< its time
};

/// Those worth taking, by index: faster than the best kernels of their operations together (`op_us`, by operation; 0:
/// not known) by more than 2 %, which is what two measurements differ by; of those that share operations the one that
/// saves most.
std::vector<std::size_t> choose_chains(const std::vector<ChainOption>& options, const std::vector<double>& op_us);

} // namespace lathe::cuda
