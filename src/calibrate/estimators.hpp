#pragma once

#include "calibrate/histogram.hpp"
#include "calibrate/range.hpp"

namespace lathe {

struct EstimateOptions {
    double percentile = 99.99; ///< of Method::percentile only; in (0, 100]
    bool guard = true;         ///< of guarded_range only: mse in place of a range that throws the signal away
};

// One function an estimator, each in its own file. All give a Range that holds zero, never reaches beyond what was
// seen (symmetric formats: beyond absmax; asymmetric mse: by more than half a step, the zero point being an integer),
// and is {0, 0} when no non-zero finite value was seen. Symmetric formats always get low == -high.

/// Nothing is clipped: symmetric +-absmax, asymmetric [min(min, 0), max(max, 0)].
Range minmax_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& options);

/// H. Wu et al., "Integer Quantization for Deep Learning Inference", 2020 (arXiv:2004.09602), section 4.1.
/// The threshold that `percentile` % of the values do not exceed; exact zeros count as values. Values are spread evenly
/// over their bin.
///   symmetric:             T with P(|x| <= T) = percentile
///   asymmetric, one side:  the same on that side, the other end 0
///   asymmetric, two sides: (100 - percentile) / 2 % beyond each end
/// Where all but so few values are zero that the result would be {0, 0}, which would erase the tensor, minmax.
Range percentile_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& options);

/// S. Migacz, "8-bit Inference with TensorRT", GTC 2017.
/// Let c_0..c_{n-1} count |x| in bins of width 2^k: the histogram's own bins, both signs added, 2,048 <= n <= 4,096
/// (Migacz has 2,048; a power of two as width gives at least that). Exact zeros are left out: each format holds them
/// without error, and they would drown the rest after a ReLU. L is the number of magnitudes that the format has: 128
/// for int8, 256 for one-sided data in uint8, 128 for two-sided. For each cut i = L..n:
///   P = c_0, .., c_{i-2}, c_{i-1} + sum_{j>=i} c_j, divided by its sum
///   group g holds the bins b with floor(b L / i) = g; S_g = sum of c_b, m_g = number of non-empty bins in it
///   Q_b = S_g / m_g where c_b > 0, else 0, divided by its sum
///   KL(P || Q) = sum_b P_b log(P_b / Q_b); infinite where Q_b = 0 < P_b
/// The least KL wins, the smallest cut among equals; T = i 2^k, absmax for i = n.
/// Sums over a group come from prefix sums, so that a cut costs L logarithms and not n.
Range entropy_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& options);

/// Least squared error. W. Sung et al., "Resiliency of Deep Neural Networks under Quantization", 2015
/// (arXiv:1511.06488), for the criterion; the sum is weighted by the histogram, each bin's values spread evenly over
/// it:
///   J = sum_b c_b / w * integral over bin b of (x - q(x))^2 dx,  q(x) = s * (clamp(round(x / s) + z, 0, n) - z)
/// in closed form (QuantizationError). Exact zeros cost nothing.
///   symmetric, or data on one side: T over all cuts at bin edges from n/128 on, coarse to fine; s = T/127 or T/255
///   asymmetric and two sides: (low, high) coarse to fine, on the integer zero point that the pair gives
Range mse_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& options);

} // namespace lathe
