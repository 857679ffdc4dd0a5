#include "data/convert.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "support/half.hpp"

namespace lathe {

namespace {

struct Half {
    std::uint16_t bits;
};
struct Brain {
    std::uint16_t bits;
};

template <class T>
constexpr bool is_float = std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

template <class T>
auto widen(T value) {
    if constexpr (std::is_same_v<T, Half>)
        return float_from_half(value.bits);
    else if constexpr (std::is_same_v<T, Brain>)
        return float_from_bfloat16(value.bits);
    else
        return value;
}

template <class T, class From>
T narrow(From value) {
    if constexpr (std::is_same_v<T, Half>)
        return {half_from_float(static_cast<float>(value))};
    else if constexpr (std::is_same_v<T, Brain>)
        return {bfloat16_from_float(static_cast<float>(value))};
    else
        return static_cast<T>(value);
}

/// Calls visit with a value of the element type; false for types that are not handled.
template <class Visit>
bool with_type(DataType type, Visit&& visit) {
    switch (type) {
        case DataType::float16: visit(Half{}); return true;
        case DataType::bfloat16: visit(Brain{}); return true;
        case DataType::float32: visit(float{}); return true;
        case DataType::float64: visit(double{}); return true;
        case DataType::int8: visit(std::int8_t{}); return true;
        case DataType::int16: visit(std::int16_t{}); return true;
        case DataType::int32: visit(std::int32_t{}); return true;
        case DataType::int64: visit(std::int64_t{}); return true;
        case DataType::uint8: visit(std::uint8_t{}); return true;
        case DataType::uint16: visit(std::uint16_t{}); return true;
        case DataType::uint32: visit(std::uint32_t{}); return true;
        case DataType::uint64: visit(std::uint64_t{}); return true;
        case DataType::boolean: visit(std::uint8_t{}); return true;
        default: return false;
    }
}

/// The first element that does not fit, or the count. Bytes may be unaligned.
template <class From, class To>
std::size_t convert(std::span<const std::byte> in, std::span<std::byte> out) {
    const std::size_t count = in.size() / sizeof(From);
    for (std::size_t i = 0; i < count; ++i) {
        From stored;
        std::memcpy(&stored, in.data() + i * sizeof(From), sizeof(From));
        const auto value = widen(stored);
        if constexpr (!is_float<To>) {
            if (!std::in_range<To>(value)) return i;
        }
        const To result = narrow<To>(value);
        std::memcpy(out.data() + i * sizeof(To), &result, sizeof(To));
    }
    return count;
}

} // namespace

Result<void> convert_elements(DataType from, std::span<const std::byte> in, DataType to, std::span<std::byte> out,
                              std::string_view where) {
    if (from == to) {
        if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
        return {};
    }
    if (is_floating(from) && !is_floating(to)) {
        return Error{ErrorCode::mismatch, "the data is " + to_string(from) + " but the model wants " + to_string(to),
                     std::string(where), "save the array as " + to_string(to)};
    }
    const std::size_t count = in.size() * 8 / std::max<std::size_t>(1, bit_width(from));
    std::size_t done = count;
    bool known = false;
    with_type(from, [&](auto from_value) {
        known = with_type(to, [&](auto to_value) {
            using From = decltype(from_value);
            using To = decltype(to_value);
            if constexpr (!is_float<From> || is_float<To>) done = convert<From, To>(in, out);
        });
    });
    if (!known) {
        return Error{ErrorCode::unsupported, "cannot convert " + to_string(from) + " to " + to_string(to),
                     std::string(where), "save the array as " + to_string(to)};
    }
    if (done != count) {
        return Error{ErrorCode::out_of_range, "element " + std::to_string(done) + " does not fit " + to_string(to),
                     std::string(where), ""};
    }
    return {};
}

} // namespace lathe
