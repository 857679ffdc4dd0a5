#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tasks/detection/head.hpp"

namespace lathe {

/// What an output says is there, before NMS.
using Candidates = std::vector<DecodedRow>;

/// Adds one, if it is finite, has a box and reaches the threshold.
inline void add_candidate(Candidates& found, std::size_t row, const Box& box, float score, std::size_t class_index,
                          float threshold) {
    const bool finite = std::isfinite(score) && std::isfinite(box.left) && std::isfinite(box.top) &&
                        std::isfinite(box.width) && std::isfinite(box.height);
    // Written so that NaN is below any threshold.
    if (!(score >= threshold) || !finite || box.width < 0 || box.height < 0) return;
    found.push_back({{box, score, static_cast<std::int32_t>(class_index)}, row});
}

inline float logistic(float x) { return 1.0F / (1.0F + std::exp(-x)); }

} // namespace lathe
