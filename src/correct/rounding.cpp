#include "correct/rounding.hpp"

#include <algorithm>
#include <cmath>

#include "support/multiversion.hpp"

namespace lathe {
namespace {

LATHE_MULTIVERSION
void add_scaled(float* sum, const float* values, float factor, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        sum[i] += factor * values[i];
}

} // namespace

double round_channel(const OutputError& error, std::span<const float> weight, float scale,
                     std::span<std::int8_t> quantized, std::span<float> gradient, const RoundingOptions& options) {
    const std::size_t depth = error.depth;
    const auto limit = static_cast<float>(options.limit);
    double gain = 0.0;
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
        bool moved = false;
        for (std::size_t i = 0; i < depth; ++i) {
            const float curvature = error.hessian[i * depth + i];
            if (!(curvature > 0.0F)) continue;
            const auto now = static_cast<float>(quantized[i]);
            const float steps = weight[i] / scale;
            // J over element i is a parabola; with step t its minimum is at -gradient / curvature.
            const float best = now - gradient[i] / (curvature * scale);
            const float lowest = std::max(-limit, std::ceil(steps - options.reach));
            const float highest = std::min(limit, std::floor(steps + options.reach));
            if (lowest > highest) continue; // clipped weight: it stays at the end of the grid
            const float next = std::clamp(std::nearbyint(best), lowest, highest);
            const float change = (next - now) * scale;
            if (change == 0.0F) continue;
            const double fall =
                -(2.0 * static_cast<double>(change) * static_cast<double>(gradient[i]) +
                  static_cast<double>(change) * static_cast<double>(change) * static_cast<double>(curvature));
            if (!(fall > 0.0)) continue;
            gain += fall;
            quantized[i] = static_cast<std::int8_t>(next);
            add_scaled(gradient.data(), &error.hessian[i * depth], change, depth);
            moved = true;
        }
        if (!moved) break;
    }
    return gain;
}

} // namespace lathe
