#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "correct/run.hpp"
#include "correct/samples.hpp"

namespace lathe {

/// What a tensor that layers read was seen to hold, a channel an entry.
struct ChannelStatistics {
    /// The largest magnitude worth a place on an 8-bit grid: with it the squares of rounding and clipping errors are
    /// least. Rare values beyond it cost a channel more as the end of its range than clipped.
    std::vector<float> level;
    std::vector<double> power;   ///< mean of x^2
    std::vector<double> nonzero; ///< share of values other than 0, which every grid holds
    std::vector<float> absmax = {};
    std::vector<float> lowest = {};  ///< the least value, from -level on; 0 where none is negative
    std::vector<float> highest = {}; ///< the greatest, up to the level; 0 where none is positive
};
/// `axis`: of the channels, negative from the end. Of channels on the last axis, what `masks` call padding is left out.
ChannelStatistics channel_statistics(const Batches& batches, std::int64_t axis, std::size_t channels,
                                     std::size_t threads, const Masks& masks = {});

} // namespace lathe
