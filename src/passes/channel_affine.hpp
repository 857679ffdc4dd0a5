#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/pattern.hpp"

namespace lathe::passes {

/// Per channel: y * scale + shift.
struct Affine {
    std::vector<double> scale;
    std::vector<double> shift;
};

/// What a BatchNormalization does to each channel, whose constants the match calls "scale", "shift", "mean" and
/// "variance"; nothing if they do not fit.
std::optional<Affine> affine_of_norm(const Match& match, const Node& norm, std::size_t channels);

/// Whether the normalisation is by given statistics, one a channel, and gives nothing but its result.
bool is_inference(const Node& norm, std::int64_t opset);

} // namespace lathe::passes
