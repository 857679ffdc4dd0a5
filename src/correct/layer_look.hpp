#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "correct/bias.hpp"
#include "correct/layer.hpp"
#include "correct/layer_error.hpp"

namespace lathe {

/// What a layer reads and gives at some output positions, in the float and in the quantised network.
struct LayerLook {
    LayerRows rows;
    std::vector<float> real_other, quantized_other; ///< the sum's other term, [channels, positions]; empty without one
    std::vector<float> wanted; ///< the float outputs, [channels, positions], with bias and other term
};

/// [channels, positions] of a value [N, C, H, W] or [N, C, W] at a convolution's output positions.
std::vector<float> gather_outputs(const Batches& values, const Positions& positions, std::size_t channels,
                                  std::size_t threads);

/// The outputs for a weight [channels, depth], bias and other term included: as the quantised network has them, or,
/// with `real`, the float one.
Result<std::vector<float>> outputs_of(const LinearLayer& form, const LayerLook& look, std::span<const float> weight,
                                      std::span<const float> bias, bool real, LayerProduct& product);

/// The best shift of each channel's bias.
std::vector<double> bias_shifts(const LayerLook& look, std::span<const float> outputs, const Clamp& clamp,
                                std::size_t channels, std::size_t threads);

/// sum (clamp(wanted) - clamp(outputs + shift))^2 over channels and positions.
double error_of(const LayerLook& look, std::span<const float> outputs, const Clamp& clamp,
                std::span<const double> shifts, std::size_t threads);

} // namespace lathe
