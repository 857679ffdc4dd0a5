#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/tuning/timing_cache.hpp"

namespace lathe::cuda {

/// An operation of a network and kernels that may be tried for it there.
struct WholeCandidate {
    std::string signature;
    double network_us = 0;            ///< of all operations with this signature together, as chosen alone
    std::vector<std::string> tactics; ///< the next best, best first
};

/// What is worth trying in a network: its costliest operations, and of each the next best kernels that alone take at
/// most 15 % longer than the one chosen. `counts`: how many operations have a signature; `chosen`: by signature, best
/// first. Operations of less than 1 % of the whole are left alone.
std::vector<WholeCandidate> whole_candidates(const std::map<std::string, std::size_t>& counts,
                                             const std::map<std::string, std::vector<std::string>>& chosen,
                                             const std::map<std::string, std::vector<Timing>>& timings);

/// Faster by more than what two runs of the same differ: the median of pairs is under 0.995 and three quarters of them
/// are under 1.
bool keeps(std::vector<double> ratios);

} // namespace lathe::cuda
