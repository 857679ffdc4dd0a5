#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "correct/channel_statistics.hpp"

namespace lathe {

/// How a reader's weight meets the channels of its input: by channel, sums over its other elements.
struct ReaderWeights {
    bool depthwise = false;
    std::size_t outputs = 0; ///< that each channel reaches
    /// Over the kernel: [outputs, channels]; with one scale for the weight [channels], over the outputs too; empty if
    /// depthwise with a scale for each channel, which then follows the factors by itself.
    std::vector<float> absmax;
    std::vector<double> power; ///< [channels]: sum of w^2
    std::size_t taps = 1;      ///< kernel elements
    const ChannelStatistics* input = nullptr;
    bool one_scale = false; ///< for the whole weight
};

/// A writer whose weight has one scale for all channels: its step follows the largest.
struct WriterWeights {
    std::vector<float> absmax;       ///< [channels]
    std::vector<double> input_power; ///< [channels]: mean square of what a filter meets, summed over its elements
};

/// What computes and what reads the channels of a class in int8.
struct ClassWeights {
    std::vector<ReaderWeights> readers;
    std::vector<WriterWeights> writers = {}; ///< those with one scale; by channel, factors cost a writer nothing
    double activation_steps = 255.0;         ///< from 0 to the largest value
};

/// The output noise that 8-bit inputs and weights cause, relative to the signal and summed over the readers, when
/// channel c is multiplied by `factors[c]` before quantisation:
///   inputs:  sum_c |w_c|^2 / s_c^2 * P(x_c != 0) * R^2 / (12 * 255^2),  R = max_c s_c level_c
///   weights: sum_m sum_c taps * E[x_c^2] s_c^2 * D_m^2 / 12,  D_m = max_c |w_mc| / s_c / 127; one scale: D = max_m D_m
///   writers with one scale: sum_c |w_c|^2 / s_c^2 * P(x_c != 0) * E|x'_c|^2 * V^2 / 12,  V = max_c |v_c| s_c / 127,
///            x' what filter c of the writer meets
/// With one scale, D and V are the largest of what Nagel et al. equalise, r2 / s and r1 s. With weights alone, and each
/// channel's mean squares going with the squares of its largest weights, no factors are better than their sqrt(r2 /
/// r1): u = s r1 and v = r2 / s give max(u)^2 sum v^2 + max(v)^2 sum u^2 >= 2 max(u v) sum(u v), equal where u = v.
double predicted_noise(const ClassWeights& layers, const std::vector<float>& factors);

/// Factors of least predicted noise among s_c = level_c^-a * w_c^b over a grid of a and b (a = 1 - b: SmoothQuant's
/// alpha; G. Xiao et al., 2022, arXiv:2211.10438); all 1 where none is better. With a cap, 1 <= s_c <= cap / level_c.
/// Channels that were always zero keep 1.
/// With writers of one scale, times v_c^-e (a = 0, b = e = 1/2: M. Nagel et al., 2019, arXiv:1906.04721, equation 11),
/// and those channels that set a range or a step are moved on while that lowers the noise, channels that were always
/// zero too. With a cap, a channel that never reached it may get smaller.
std::vector<float> best_factors(const ClassWeights& layers, std::size_t channels, std::optional<float> cap);

} // namespace lathe
