#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "correct/run.hpp"

namespace lathe {

/// What a tensor that layers read was seen to hold, a channel an entry.
struct ChannelStatistics {
    /// The largest magnitude worth a place on an 8-bit grid: with it the squares of rounding and clipping errors are
    /// least. Rare values beyond it cost a channel more as the end of its range than clipped.
    std::vector<float> level;
    std::vector<double> power;   ///< mean of x^2
    std::vector<double> nonzero; ///< share of values other than 0, which every grid holds
    std::vector<float> absmax = {};
};
/// `axis`: of the channels, negative from the end.
ChannelStatistics channel_statistics(const Batches& batches, std::int64_t axis, std::size_t channels,
                                     std::size_t threads);

} // namespace lathe
