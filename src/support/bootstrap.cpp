#include "support/bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lathe {

Interval bootstrap(std::size_t samples, std::size_t resamples, std::uint64_t seed,
                   const std::function<double(std::span<const std::uint32_t>)>& figure) {
    if (samples < 2 || resamples == 0) return {};
    std::mt19937_64 generator(seed);
    std::vector<double> values;
    std::vector<std::uint32_t> weights(samples);
    for (std::size_t i = 0; i < resamples; ++i) {
        std::ranges::fill(weights, 0U);
        // No distribution object: one seed gives one interval with every compiler.
        for (std::size_t drawn = 0; drawn < samples; ++drawn) {
            const double uniform = static_cast<double>(generator() >> 11) * 0x1.0p-53;
            ++weights[static_cast<std::size_t>(uniform * static_cast<double>(samples))];
        }
        const double value = figure(weights);
        if (!std::isnan(value)) values.push_back(value);
    }
    if (values.empty()) return {};
    std::ranges::sort(values);
    const auto quantile = [&](double share) {
        const double place = share * static_cast<double>(values.size() - 1);
        const auto below = static_cast<std::size_t>(place);
        const std::size_t above = std::min(below + 1, values.size() - 1);
        return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
    };
    return {quantile(0.025), quantile(0.975)};
}

} // namespace lathe
