#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quantize/pairs.hpp"

namespace lathe {

// With d = s q - w for an output channel, the error of its outputs over the rows x^ that the quantised network gives
// the layer is, up to a constant and after the bias has taken the mean,
//   J(d) = d^T H d - 2 b^T d
// H, [K, K]: mean of (x^ - mean)(x^ - mean)^T, damping on the diagonal; b, [K]: mean of (e - mean) (x^ - mean) with
// e = w^T (x - x^), what came with the input.

/// Rounds channels so that the J of each is least, by coordinate descent: element i goes to the grid point nearest to
/// the minimum of J over it with all others held, again and again until none moves or `sweeps` are done. J never rises.
/// K. Behdin et al., "QuantEase", 2023 (arXiv:2309.01885); the objective is that of GPTQ (E. Frantar et al., 2022,
/// arXiv:2210.17323) and of AdaRound (M. Nagel et al., 2020, arXiv:2004.10568), the pull that of BRECQ-like methods
/// which feed the quantised input and aim at the float output.
struct RoundingOptions {
    int sweeps = 4;
    float reach = 1.0F; ///< no element goes further than this many steps from its weight
    int limit = 127;    ///< nor beyond +-limit
    /// Of a weight [channels, K]: none of these goes beyond most_of_a_pair (WeightRange::pairs).
    WeightPairs pairs = {};
};

/// Channels of one group, [channels, K] each: they share H, and its rows are read once for all of them.
struct ChannelBlock {
    std::span<const float> weight; ///< in float
    std::span<const float> scales; ///< one a channel
    std::span<std::int8_t> steps;  ///< where to begin; the result
    std::span<float> gradient;     ///< H d - b of each; kept up to date
};

/// `hessian`: H, [K, K]. Returns by how much J fell (>= 0), a channel an entry.
std::vector<double> round_channels(std::span<const float> hessian, const ChannelBlock& block,
                                   const RoundingOptions& options);

} // namespace lathe
