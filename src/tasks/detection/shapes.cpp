#include "tasks/detection/shapes.hpp"

#include <algorithm>
#include <span>

namespace lathe {

std::size_t known_size(const Shape& shape, std::size_t axis) {
    return axis < shape.size() && shape[axis] > 0 ? static_cast<std::size_t>(shape[axis]) : 0;
}

bool is_named(const OutputShape& output, std::initializer_list<const char*> words) {
    std::string name = output.name;
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return std::ranges::any_of(words, [&](const char* word) { return name.find(word) != std::string::npos; });
}

std::vector<std::size_t> strides_for(std::size_t anchors, std::size_t height, std::size_t width, std::size_t per_cell) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{4}, std::size_t{5}}) {
        const std::span<const std::size_t> strides(usual_strides.data(), count);
        std::size_t cells = 0;
        for (const std::size_t stride : strides)
            cells += cells_along(height, stride) * cells_along(width, stride);
        if (anchors > 0 && cells * per_cell == anchors) return {strides.begin(), strides.end()};
    }
    return {};
}

} // namespace lathe
