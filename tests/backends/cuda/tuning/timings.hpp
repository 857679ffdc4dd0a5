#pragma once

#include <string>
#include <utility>

#include "backends/cuda/tuning/timing_cache.hpp"

namespace lathe::cuda::test {

inline Timing timing(std::string tactic, double mixed_us, std::size_t workspace = 0, std::string refused = "") {
    Timing made;
    made.tactic = std::move(tactic);
    made.mixed_us = mixed_us;
    made.workspace = workspace;
    made.refused = std::move(refused);
    return made;
}
/// Of a tactic that was found wrong.
inline Timing timing(std::string tactic, double mixed_us, std::string refused) {
    return timing(std::move(tactic), mixed_us, 0, std::move(refused));
}

} // namespace lathe::cuda::test
