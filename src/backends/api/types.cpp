#include <array>
#include <utility>

#include "lathe/engine_types.hpp"

namespace lathe {

namespace {

constexpr std::array<std::pair<Precision, const char*>, 5> precision_names{{
    {Precision::float32, "fp32"},
    {Precision::tensor_float32, "tf32"},
    {Precision::bfloat16, "bf16"},
    {Precision::float16, "fp16"},
    {Precision::int8, "int8"},
}};

} // namespace

std::string to_string(Precision precision) {
    for (const auto& [value, name] : precision_names) {
        if (value == precision) return name;
    }
    return "unknown";
}

std::optional<Precision> precision_from_name(std::string_view name) {
    for (const auto& [value, known] : precision_names) {
        if (name == known) return value;
    }
    return std::nullopt;
}

bool ShapeRange::contains(const Shape& shape) const {
    if (shape.size() != min.size() || min.size() != max.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] < min[i] || shape[i] > max[i]) return false;
    }
    return true;
}

std::string ShapeRange::describe() const {
    if (is_static()) return to_string(min);
    return to_string(min) + ".." + to_string(opt) + ".." + to_string(max);
}

} // namespace lathe
