#include "data/companions.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace lathe {

namespace {

struct KnownCompanion {
    std::string_view name;
    CompanionValue value;
};

constexpr std::array<KnownCompanion, 4> known_companions{{
    {"orig_target_sizes", CompanionValue::width_height},
    {"im_shape", CompanionValue::height_width},
    {"image_shape", CompanionValue::height_width},
    {"scale_factor", CompanionValue::scale},
}};

bool holds_three_channels(const Shape& shape) { return shape.size() == 4 && (shape[1] == 3 || shape[3] == 3); }

/// What the input says, if it has such a name, type and shape beside `samples` pictures (negative: any number).
std::optional<CompanionValue> companion_value(const InputSpec& input, std::int64_t samples) {
    const auto known = std::ranges::find(known_companions, std::string_view(input.name), &KnownCompanion::name);
    if (known == known_companions.end()) return std::nullopt;
    const bool whole = input.type == DataType::int32 || input.type == DataType::int64;
    const bool real = input.type == DataType::float32 || input.type == DataType::float64;
    if (!real && !(whole && known->value != CompanionValue::scale)) return std::nullopt;
    const Shape& shape = input.shape;
    if (shape.empty() || shape.size() > 2 || shape.back() != 2) return std::nullopt;
    const bool fits = shape.size() == 1 || shape[0] < 0 || shape[0] == 1 || shape[0] == samples;
    return fits ? std::optional(known->value) : std::nullopt;
}

} // namespace

Companions companions_of(std::span<const InputSpec> inputs) {
    const auto picture =
        std::ranges::find_if(inputs, [](const InputSpec& input) { return holds_three_channels(input.shape); });
    if (picture == inputs.end()) return {};
    Companions found{static_cast<std::size_t>(picture - inputs.begin())};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (i == found.picture) continue;
        const auto value = companion_value(inputs[i], picture->shape[0]);
        if (!value) return {};
        found.others.push_back({i, *value});
    }
    return found;
}

std::string names_of(const Companions& companions, std::span<const InputSpec> inputs) {
    std::string names;
    for (const Companion& companion : companions.others)
        names += (names.empty() ? "" : ", ") + inputs[companion.input].name;
    return names;
}

} // namespace lathe
