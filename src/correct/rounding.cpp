#include "correct/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/multiversion.hpp"

namespace lathe {
namespace {

LATHE_MULTIVERSION
void add_scaled(float* sum, const float* values, float factor, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        sum[i] += factor * values[i];
}

/// How far an element may go beside the other one of its pair: of opposite signs they cannot overflow.
std::pair<float, float> room_beside(std::int8_t other) {
    constexpr auto most = static_cast<float>(most_of_a_pair);
    const auto step = static_cast<float>(other);
    return {step < 0.0F ? -most - step : -most, step > 0.0F ? most - step : most};
}

} // namespace

std::vector<double> round_channels(std::span<const float> hessian, const ChannelBlock& block,
                                   const RoundingOptions& options) {
    const std::size_t channels = block.scales.size();
    const std::size_t depth = channels == 0 ? 0 : block.weight.size() / channels;
    const auto limit = static_cast<float>(options.limit);
    std::vector<double> falls(channels, 0.0);
    std::vector<char> settled(channels, 0);
    for (int sweep = 0; sweep < options.sweeps; ++sweep) {
        std::vector<char> moved(channels, 0);
        for (std::size_t i = 0; i < depth; ++i) {
            const float curvature = hessian[i * depth + i];
            if (!(curvature > 0.0F)) continue;
            const auto other = options.pairs.other(i);
            for (std::size_t c = 0; c < channels; ++c) {
                if (settled[c] != 0) continue;
                const std::size_t at = c * depth + i;
                const float scale = block.scales[c];
                const auto now = static_cast<float>(block.steps[at]);
                const float steps = block.weight[at] / scale;
                // J over element i is a parabola; with step t its minimum is at -gradient / curvature.
                const float best = now - block.gradient[at] / (curvature * scale);
                float lowest = std::max(-limit, std::ceil(steps - options.reach));
                float highest = std::min(limit, std::floor(steps + options.reach));
                if (other) {
                    const auto [least, most] = room_beside(block.steps[c * depth + *other]);
                    lowest = std::max(lowest, least);
                    highest = std::min(highest, most);
                }
                if (lowest > highest) continue; // clipped weight: it stays at the end of the grid
                const float next = std::clamp(std::nearbyint(best), lowest, highest);
                const float change = (next - now) * scale;
                if (change == 0.0F) continue;
                const double fall =
                    -(2.0 * static_cast<double>(change) * static_cast<double>(block.gradient[at]) +
                      static_cast<double>(change) * static_cast<double>(change) * static_cast<double>(curvature));
                if (!(fall > 0.0)) continue;
                falls[c] += fall;
                block.steps[at] = static_cast<std::int8_t>(next);
                add_scaled(&block.gradient[c * depth], &hessian[i * depth], change, depth);
                moved[c] = 1;
            }
        }
        bool any = false;
        for (std::size_t c = 0; c < channels; ++c) {
            settled[c] = moved[c] != 0 ? 0 : 1;
            any = any || moved[c] != 0;
        }
        if (!any) break;
    }
    return falls;
}

} // namespace lathe
