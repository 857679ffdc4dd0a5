#include "data/position_mask.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace lathe {
namespace {

constexpr std::string_view mask_input = "attention_mask";

/// 1 where an element is not 0.
template <class T>
void not_zero(std::span<const std::byte> bytes, std::vector<std::uint8_t>& own) {
    for (std::size_t i = 0; i < own.size(); ++i) {
        T value{};
        std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
        own[i] = value != T{} ? 1 : 0;
    }
}

} // namespace

std::optional<PositionMask> PositionMask::make(DataType type, const Shape& shape, std::span<const std::byte> bytes) {
    const std::int64_t count = element_count(shape);
    if (shape.size() != 2 || count <= 0 || bytes.size() != byte_size(type, static_cast<std::size_t>(count))) {
        return std::nullopt;
    }
    std::vector<std::uint8_t> own(static_cast<std::size_t>(count));
    switch (type) {
        case DataType::int64: not_zero<std::int64_t>(bytes, own); break;
        case DataType::int32: not_zero<std::int32_t>(bytes, own); break;
        case DataType::int8:
        case DataType::uint8:
        case DataType::boolean: not_zero<std::uint8_t>(bytes, own); break;
        default: return std::nullopt;
    }
    if (std::ranges::all_of(own, [](std::uint8_t each) { return each != 0; })) return std::nullopt;
    return PositionMask(std::move(own), static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]));
}

std::optional<PositionMask> PositionMask::of(std::span<const TensorView> inputs) {
    const auto mask = std::ranges::find(inputs, mask_input, &TensorView::name);
    if (mask == inputs.end()) return std::nullopt;
    return make(mask->type, mask->shape, mask->bytes);
}

std::optional<PositionMask> PositionMask::of(const HostTensor& mask) {
    if (mask.name != mask_input) return std::nullopt;
    return make(mask.type, mask.shape, mask.bytes);
}

std::optional<PositionMask::Layout> PositionMask::layout_of(const Shape& shape) const {
    const auto size_at = [&](std::size_t axis) { return static_cast<std::size_t>(shape[axis]); };
    if (element_count(shape) <= 0) return std::nullopt;
    if (shape.size() == 2) {
        if (size_at(0) != batch_ * length_) return std::nullopt;
        return Layout{1, size_at(1)};
    }
    if (shape.size() < 3 || size_at(0) != batch_) return std::nullopt;
    const bool second = size_at(1) == length_;
    const bool third = shape.size() == 4 && size_at(2) == length_;
    if (second == third) return std::nullopt;
    if (third) return Layout{size_at(1), size_at(3)};
    Layout layout;
    for (std::size_t axis = 2; axis < shape.size(); ++axis)
        layout.size *= size_at(axis);
    return layout;
}

} // namespace lathe
