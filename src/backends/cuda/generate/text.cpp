#include "backends/cuda/generate/text.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace lathe::cuda::generated {

std::string literal(float value) {
    if (!std::isfinite(value)) return "bits_float(" + std::to_string(std::bit_cast<std::uint32_t>(value)) + "u)";
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    std::string text(buffer.data(), end);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    text += "f";
    return text.front() == '-' ? "(" + text + ")" : text;
}

const char* storage(ElementType type) {
    switch (type) {
        case ElementType::f32: return "float";
        case ElementType::f16:
        case ElementType::bf16: return "u16";
        case ElementType::s8: return "i8";
        case ElementType::s32: return "i32";
        case ElementType::s64: return "i64";
        case ElementType::boolean:
        case ElementType::u8: return "u8";
        case ElementType::s16: return "i16";
        case ElementType::u16: return "u16";
        case ElementType::u32: return "u32";
        case ElementType::u64: return "u64";
        case ElementType::f64: return "double";
    }
    return "u8";
}

std::string to_float(ElementType type, const std::string& stored) {
    switch (type) {
        case ElementType::f32: return stored;
        case ElementType::f16: return "half_float(" + stored + ")";
        case ElementType::bf16: return "bfloat_float(" + stored + ")";
        case ElementType::s8:
        case ElementType::s32:
        case ElementType::s64:
        case ElementType::u8:
        case ElementType::s16:
        case ElementType::u16:
        case ElementType::u32:
        case ElementType::u64:
        case ElementType::f64: return "(float)(" + stored + ")";
        case ElementType::boolean: return "(" + stored + " != 0 ? 1.0f : 0.0f)";
    }
    return stored;
}

std::string from_float(ElementType type, const std::string& value) {
    switch (type) {
        case ElementType::f32: return value;
        case ElementType::f16: return "float_half(" + value + ")";
        case ElementType::bf16: return "float_bfloat(" + value + ")";
        case ElementType::s8: return "float_s8(" + value + ")";
        case ElementType::s32: return "(i32)(" + value + ")";
        case ElementType::s64: return "(i64)(" + value + ")";
        case ElementType::u8:
        case ElementType::s16:
        case ElementType::u16: // by way of an integer that holds it: what is out of range wraps around
            return join("(", storage(type), ")(i32)(", value, ")");
        case ElementType::u32: return "(u32)(i64)(" + value + ")";
        case ElementType::u64: return "(" + value + " < 0.0f ? (u64)(i64)(" + value + ") : (u64)(" + value + "))";
        case ElementType::f64: return "(double)(" + value + ")";
        case ElementType::boolean: return "(u8)(" + value + " != 0.0f ? 1 : 0)";
    }
    return value;
}

std::string times(float factor) { return factor == 1.0F ? "" : " * " + literal(factor); }

} // namespace lathe::cuda::generated
