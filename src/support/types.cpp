#include "lathe/types.hpp"

#include <array>
#include <limits>

namespace lathe {

namespace {

struct TypeInfo {
    const char* name;
    std::size_t bits;
};

constexpr std::array<TypeInfo, 29> type_table{{
    {"undefined", 0},      {"float32", 32},  {"uint8", 8},        {"int8", 8},           {"uint16", 16},
    {"int16", 16},         {"int32", 32},    {"int64", 64},       {"string", 0},         {"bool", 8},
    {"float16", 16},       {"float64", 64},  {"uint32", 32},      {"uint64", 64},        {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16}, {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},     {"int4", 4},         {"float4e2m1", 4},     {"float8e8m0", 8},
    {"uint2", 2},          {"int2", 2},      {"float6e2m3", 6},   {"float6e3m2", 6},
}};

const TypeInfo* find(DataType type) {
    const auto index = static_cast<std::size_t>(type);
    return static_cast<std::int32_t>(type) >= 0 && index < type_table.size() ? &type_table[index] : nullptr;
}

} // namespace

std::string to_string(DataType type) {
    const TypeInfo* info = find(type);
    return info ? info->name : "type " + std::to_string(static_cast<std::int32_t>(type));
}

DataType data_type_from_name(std::string_view name) {
    for (std::size_t i = 0; i < type_table.size(); ++i) {
        if (name == type_table[i].name) return static_cast<DataType>(i);
    }
    return DataType::undefined;
}

std::size_t bit_width(DataType type) {
    const TypeInfo* info = find(type);
    return info ? info->bits : 0;
}

bool is_floating(DataType type) {
    return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float32 ||
           type == DataType::float64;
}

std::string to_string(const Shape& shape) {
    if (shape.empty()) return "scalar";
    std::string text;
    for (const std::int64_t dim : shape) {
        if (!text.empty()) text += 'x';
        text += dim < 0 ? "?" : std::to_string(dim);
    }
    return text;
}

std::int64_t element_count(const Shape& shape) {
    std::int64_t count = 1;
    bool has_zero = false;
    for (const std::int64_t dim : shape) {
        if (dim < 0) return -1;
        has_zero = has_zero || dim == 0;
    }
    if (has_zero) return 0;
    for (const std::int64_t dim : shape) {
        if (count > std::numeric_limits<std::int64_t>::max() / dim) return -1;
        count *= dim;
    }
    return count;
}

std::size_t byte_size(DataType type, std::size_t count) { return (count * bit_width(type) + 7) / 8; }

HostTensor::HostTensor(std::string name_, DataType type_, Shape shape_)
    : name(std::move(name_)), type(type_), shape(std::move(shape_)) {
    const std::int64_t count = element_count(shape);
    bytes.resize(byte_size(type, count > 0 ? static_cast<std::size_t>(count) : 0));
}

} // namespace lathe
