#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "support/interval.hpp"

namespace lathe {

/// 95 % percentile bootstrap interval (Efron 1979) of a figure of `samples` samples: `figure` is given how often each
/// sample was drawn, `resamples` times. Draws for which it gives NaN (nothing to judge among them) are left out. One
/// seed gives one interval, with every compiler. [0, 0] for fewer than two samples, or where every draw gives NaN.
Interval bootstrap(std::size_t samples, std::size_t resamples, std::uint64_t seed,
                   const std::function<double(std::span<const std::uint32_t>)>& figure);

} // namespace lathe
