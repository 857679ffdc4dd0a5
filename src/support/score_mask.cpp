#include "support/score_mask.hpp"

#include <cmath>

#include "support/half.hpp"

namespace lathe {

namespace {

constexpr float masks_from = -1e9F; ///< downwards
constexpr float both_hold = 65504.0F;

bool lacks(DataType type, float value) {
    if (std::abs(value) <= both_hold || !std::isfinite(value)) return false;
    return type == DataType::float16 || std::isinf(float_from_bfloat16(bfloat16_from_float(value)));
}

} // namespace

std::optional<std::vector<float>> clamped_masks(std::span<const float> values, DataType type) {
    std::optional<std::vector<float>> clamped;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!lacks(type, values[i])) continue;
        if (values[i] > masks_from) return std::nullopt;
        if (!clamped) clamped.emplace(values.begin(), values.end());
        (*clamped)[i] = narrow_mask;
    }
    return clamped;
}

std::string describe_clamped(const std::string& constant, DataType type) {
    return constant + " is a mask: the numbers that " + to_string(type) +
           " lacks became -30000, of which a softmax makes 0 as well";
}

} // namespace lathe
