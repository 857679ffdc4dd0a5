#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// What a layer's output error depends on, of one group. With d = s q - w for an output channel m, the error of its
/// outputs over the rows x^ that the quantised network gives the layer is, up to a constant and after the bias has
/// taken the mean,
///   J(d) = d^T H d - 2 b^T d
struct OutputError {
    std::size_t depth = 0;          ///< K
    std::span<const float> hessian; ///< H, [K, K]: mean of (x^ - mean)(x^ - mean)^T, damping on the diagonal
    std::span<const float> pull; ///< b, [K]: mean of (e - mean) (x^ - mean), e = w^T (x - x^): what came with the input
};

/// Rounds one channel so that J is least, by coordinate descent: element i goes to the grid point nearest to the
/// minimum of J over it with all others held, again and again until none moves or `sweeps` are done. J never rises.
/// K. Behdin et al., "QuantEase", 2023 (arXiv:2309.01885); the objective is that of GPTQ (E. Frantar et al., 2022,
/// arXiv:2210.17323) and of AdaRound (M. Nagel et al., 2020, arXiv:2004.10568), the pull that of BRECQ-like methods
/// which feed the quantised input and aim at the float output.
///
/// `weight` [K] is in float, `quantized` [K] where to begin, `gradient` [K] is H d - b for it and kept up to date.
/// No element goes further than `reach` steps from its weight, nor beyond +-limit.
struct RoundingOptions {
    int sweeps = 4;
    float reach = 1.0F;
    int limit = 127;
};
/// Returns by how much J fell (>= 0).
double round_channel(const OutputError& error, std::span<const float> weight, float scale,
                     std::span<std::int8_t> quantized, std::span<float> gradient, const RoundingOptions& options);

} // namespace lathe
