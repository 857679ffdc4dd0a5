#include "graph/tensor.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "support/half.hpp"

namespace lathe {
namespace {

/// Alignment `values<T>` needs for elements of this type.
std::size_t alignment_of(DataType type) {
    const std::size_t bytes = bit_width(type) / 8;
    return std::clamp<std::size_t>(bytes, 1, alignof(std::max_align_t) / 2);
}

std::shared_ptr<const std::vector<std::byte>> copy_of(std::span<const std::byte> bytes) {
    return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

const std::vector<std::string>& no_strings() {
    static const std::vector<std::string> none;
    return none;
}

template <class To, class From>
std::vector<To> converted(std::span<const From> values) {
    std::vector<To> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(), [](From value) { return static_cast<To>(value); });
    return result;
}

/// Elements of `width` bits, least significant first in each byte (onnx.proto, TensorProto.int32_data).
template <class To>
std::vector<To> unpacked(std::span<const std::byte> bytes, std::size_t count, unsigned width, bool is_signed) {
    const unsigned per_byte = 8 / width;
    const unsigned mask = (1U << width) - 1U;
    count = std::min(count, bytes.size() * per_byte);
    std::vector<To> result(count);
    for (std::size_t i = 0; i < count; ++i) {
        const unsigned bits = (std::to_integer<unsigned>(bytes[i / per_byte]) >> (width * (i % per_byte))) & mask;
        const bool negative = is_signed && ((bits >> (width - 1)) & 1U) != 0;
        result[i] = static_cast<To>(static_cast<int>(bits) - (negative ? static_cast<int>(mask) + 1 : 0));
    }
    return result;
}

template <class To>
std::vector<To> integers(const Tensor& tensor) {
    switch (tensor.type()) {
        case DataType::boolean:
        case DataType::uint8: return converted<To>(tensor.values<std::uint8_t>());
        case DataType::int8: return converted<To>(tensor.values<std::int8_t>());
        case DataType::uint16: return converted<To>(tensor.values<std::uint16_t>());
        case DataType::int16: return converted<To>(tensor.values<std::int16_t>());
        case DataType::uint32: return converted<To>(tensor.values<std::uint32_t>());
        case DataType::int32: return converted<To>(tensor.values<std::int32_t>());
        case DataType::uint64: return converted<To>(tensor.values<std::uint64_t>());
        case DataType::int64: return converted<To>(tensor.values<std::int64_t>());
        case DataType::uint4: return unpacked<To>(tensor.bytes(), tensor.count(), 4, false);
        case DataType::int4: return unpacked<To>(tensor.bytes(), tensor.count(), 4, true);
        case DataType::uint2: return unpacked<To>(tensor.bytes(), tensor.count(), 2, false);
        case DataType::int2: return unpacked<To>(tensor.bytes(), tensor.count(), 2, true);
        default: return {};
    }
}

} // namespace

Tensor::Tensor(std::string name_, DataType type, Shape shape, std::span<const std::byte> bytes)
    : name(std::move(name_)), type_(type), shape_(std::move(shape)) {
    auto block = copy_of(bytes);
    bytes_ = *block;
    owner_ = std::move(block);
}

Tensor::Tensor(std::string name_, DataType type, Shape shape, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner)
    : name(std::move(name_)), type_(type), shape_(std::move(shape)), bytes_(bytes), owner_(std::move(owner)) {
    // Offsets in a mapped file are the writer's choice; reading them through T* would be undefined behaviour.
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(type) != 0) {
        auto block = copy_of(bytes);
        bytes_ = *block;
        owner_ = std::move(block);
    }
}

Tensor::Tensor(std::string name_, Shape shape, std::vector<std::string> strings)
    : name(std::move(name_)), type_(DataType::string), shape_(std::move(shape)),
      strings_(std::make_shared<const std::vector<std::string>>(std::move(strings))) {}

std::size_t Tensor::count() const {
    const std::int64_t elements = element_count(shape_);
    return elements < 0 ? 0 : static_cast<std::size_t>(elements);
}

const std::vector<std::string>& Tensor::strings() const { return strings_ ? *strings_ : no_strings(); }

std::vector<float> Tensor::to_floats() const {
    switch (type_) {
        case DataType::float32: return converted<float>(values<float>());
        case DataType::float64: return converted<float>(values<double>());
        case DataType::float16:
        case DataType::bfloat16: {
            const auto bits = values<std::uint16_t>();
            std::vector<float> result(bits.size());
            const bool half = type_ == DataType::float16;
            std::transform(bits.begin(), bits.end(), result.begin(),
                           [half](std::uint16_t b) { return half ? float_from_half(b) : float_from_bfloat16(b); });
            return result;
        }
        default: return integers<float>(*this);
    }
}

std::vector<std::int64_t> Tensor::to_int64s() const { return integers<std::int64_t>(*this); }

Tensor Tensor::reshaped(Shape shape) const {
    Tensor result = *this;
    result.shape_ = std::move(shape);
    return result;
}

Tensor Tensor::renamed(std::string new_name) const {
    Tensor result = *this;
    result.name = std::move(new_name);
    return result;
}

bool same_content(const Tensor& a, const Tensor& b) {
    if (a.type() != b.type() || a.shape() != b.shape()) return false;
    if (a.type() == DataType::string) return a.strings() == b.strings();
    const auto x = a.bytes();
    const auto y = b.bytes();
    if (x.size() != y.size()) return false;
    return x.data() == y.data() || x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0;
}

} // namespace lathe
