#include "support/score_mask.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

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

ClampedConstant clamped_constant(const std::string& name, std::span<const float> values, DataType type) {
    ClampedConstant found{name, to_string(type), 0, 0, static_cast<double>(narrow_mask)};
    for (const float value : values) {
        if (!lacks(type, value)) continue;
        ++found.elements;
        found.from = std::min(found.from, static_cast<double>(value));
    }
    return found;
}

std::string describe_clamped(const ClampedConstant& constant) {
    std::array<char, 32> from{};
    std::array<char, 32> to{};
    std::snprintf(from.data(), from.size(), "%.3g", constant.from);
    std::snprintf(to.data(), to.size(), "%.3g", constant.to);
    return constant.name + " is a mask: " + std::to_string(constant.elements) +
           (constant.elements == 1 ? " number, " : " numbers, the lowest ") + from.data() + ", that " + constant.type +
           " lacks became " + to.data() + ", of which a softmax makes 0 as well";
}

std::string describe_clamped(const std::string& constant, DataType type) {
    return constant + " is a mask: the numbers that " + to_string(type) +
           " lacks became -30000, of which a softmax makes 0 as well";
}

} // namespace lathe
