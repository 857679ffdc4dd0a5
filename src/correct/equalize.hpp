#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "correct/channel_classes.hpp"
#include "correct/run.hpp"
#include "correct/samples.hpp"
#include "graph/graph.hpp"
#include "support/progress.hpp"

namespace lathe {

struct EqualizeOptions {
    bool convolutions = true;   ///< classes that Conv and Gemm write (cross-layer equalisation)
    bool normalizations = true; ///< classes that a LayerNormalization writes (SmoothQuant)
    std::size_t threads = 0;
    std::vector<std::string> stays_float = {}; ///< outputs of layers that will not be quantised: what they err counts 0
    /// Outputs of the int8 MatMuls whose input a Mul of its own may scale (scaled_inputs); empty: none.
    std::set<std::string> scaled_in_front = {};
};

/// What a tensor that layers read was seen to hold, a channel an entry.
struct ChannelStatistics {
    /// The largest magnitude worth a place on an 8-bit grid: with it the squares of rounding and clipping errors are
    /// least. Rare values beyond it cost a channel more as the end of its range than clipped.
    std::vector<float> level;
    std::vector<double> power;       ///< mean of x^2
    std::vector<double> nonzero;     ///< share of values other than 0, which every grid holds
    std::vector<float> lowest = {};  ///< the least value, from -level on; 0 where none is negative
    std::vector<float> highest = {}; ///< the greatest, up to the level; 0 where none is positive
};
/// `axis`: of the channels, negative from the end. Of channels on the last axis, what `masks` call padding is left out.
ChannelStatistics channel_statistics(const Batches& batches, std::int64_t axis, std::size_t channels,
                                     std::size_t threads, const Masks& masks = {});

/// How a reader's weight meets the channels of its input: by channel, sums over its other elements.
struct ReaderWeights {
    bool depthwise = false;
    std::size_t outputs = 0;   ///< that each channel reaches
    std::vector<float> absmax; ///< [outputs, channels]: over the kernel; empty if depthwise
    std::vector<double> power; ///< [channels]: sum of w^2
    std::size_t taps = 1;      ///< kernel elements
    bool both_signs = false;   ///< the grid reaches as far below zero as values do, not only from 0 up
    const ChannelStatistics* input = nullptr;
};

/// The output noise that 8-bit inputs and weights cause, relative to the signal and summed over the readers, when
/// channel c is multiplied by `factors[c]` before quantisation:
///   inputs:  sum_c |w_c|^2 / s_c^2 * P(x_c != 0) * R^2 / (12 * 255^2),  R = max_c s_c level_c, or, with both
///            signs, max_c s_c highest_c - min_c s_c lowest_c
///   weights: sum_m sum_c taps * E[x_c^2] s_c^2 * D_m^2 / 12,  D_m = max_c |w_mc| / s_c / 127
double predicted_noise(const std::vector<ReaderWeights>& readers, const std::vector<float>& factors);

/// Factors of least predicted noise among s_c = level_c^-a * w_c^b over a grid of a and b (a = 1 - b: SmoothQuant's
/// alpha; G. Xiao et al., 2022, arXiv:2211.10438); all 1 where none is better. With a cap, 1 <= s_c <= cap / level_c.
/// Channels that were always zero keep 1.
std::vector<float> best_factors(const std::vector<ReaderWeights>& readers, std::size_t channels,
                                std::optional<float> cap);

struct EqualizeOutcome {
    Model model;               ///< computes the same, up to rounding and, with a cap, for values up to their level
    std::size_t classes = 0;   ///< that were looked at
    std::size_t fired = 0;     ///< whose factors are not all 1
    std::size_t in_front = 0;  ///< of them, those that a Mul of their own scales
    double noise_before = 0.0; ///< predicted, summed over the classes that fired
    double noise_after = 0.0;
};

/// Cross-layer equalisation. M. Nagel et al., 2019 (arXiv:1906.04721), section 4.1, equalise the weights of a pair of
/// layers, both with one scale a tensor. Here the writer's weights have a scale a channel, so its side is free and what
/// is equalised is the activation between them against the reader's weights; classes may be pairs, depthwise triples
/// or a whole residual stream. Where no weight before an activation can take its factors, a Mul may (scaled_inputs).
/// Errors: what running the model gives; cancelled.
Result<EqualizeOutcome> equalize(const Model& real, const std::map<std::string, Batches>& samples,
                                 const EqualizeOptions& options, Progress& progress);

} // namespace lathe
