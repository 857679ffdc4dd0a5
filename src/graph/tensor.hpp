#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/types.hpp"

namespace lathe {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// A constant: type, shape and immutable bytes (little-endian, row-major, packed). Copies share the bytes, so
/// copying a graph is cheap; the owner may be a heap block or a mapped file (external data).
class Tensor {
public:
    std::string name;
    std::string doc;
    Metadata metadata;

    Tensor() = default;
    /// Bytes are copied. `bytes.size()` must be byte_size(type, element_count(shape)).
    Tensor(std::string name_, DataType type, Shape shape, std::span<const std::byte> bytes);
    /// Bytes are shared: `owner` keeps them alive.
    Tensor(std::string name_, DataType type, Shape shape, std::span<const std::byte> bytes,
           std::shared_ptr<const void> owner);
    /// A string tensor.
    Tensor(std::string name_, Shape shape, std::vector<std::string> strings);

    template <class T>
    static Tensor of(std::string name_, DataType type, Shape shape, std::span<const T> values) {
        return Tensor(std::move(name_), type, std::move(shape), std::as_bytes(values));
    }
    static Tensor of_floats(std::string name_, Shape shape, std::span<const float> values) {
        return of(std::move(name_), DataType::float32, std::move(shape), values);
    }
    static Tensor of_int64s(std::string name_, Shape shape, std::span<const std::int64_t> values) {
        return of(std::move(name_), DataType::int64, std::move(shape), values);
    }

    DataType type() const { return type_; }
    const Shape& shape() const { return shape_; }
    std::size_t count() const;
    std::span<const std::byte> bytes() const { return bytes_; }
    const std::vector<std::string>& strings() const;

    /// The elements as T; the caller has checked type(). The bytes may be unaligned only if mapped; `of` aligns.
    template <class T>
    std::span<const T> values() const {
        return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
    }

    /// Elements converted to float: float16/bfloat16/float32/float64 and integers up to 64 bits. Empty for others.
    std::vector<float> to_floats() const;
    /// Elements of an integer or boolean tensor as int64. Empty for others.
    std::vector<std::int64_t> to_int64s() const;

    /// Same bytes under another shape of equal element count.
    Tensor reshaped(Shape shape) const;
    Tensor renamed(std::string new_name) const;

private:
    DataType type_ = DataType::undefined;
    Shape shape_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> owner_;
    std::shared_ptr<const std::vector<std::string>> strings_;
};

/// Type, shape and content are the same (names and docs are not compared).
bool same_content(const Tensor& a, const Tensor& b);

} // namespace lathe
