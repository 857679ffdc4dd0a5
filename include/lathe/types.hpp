#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Element types, numbered as ONNX's TensorProto.DataType (onnx.proto).
enum class DataType : std::int32_t {
    undefined = 0,
    float32 = 1,
    uint8 = 2,
    int8 = 3,
    uint16 = 4,
    int16 = 5,
    int32 = 6,
    int64 = 7,
    string = 8,
    boolean = 9,
    float16 = 10,
    float64 = 11,
    uint32 = 12,
    uint64 = 13,
    complex64 = 14,
    complex128 = 15,
    bfloat16 = 16,
    float8e4m3fn = 17,
    float8e4m3fnuz = 18,
    float8e5m2 = 19,
    float8e5m2fnuz = 20,
    uint4 = 21,
    int4 = 22,
    float4e2m1 = 23,
    float8e8m0 = 24,
    uint2 = 25,
    int2 = 26,
    float6e2m3 = 27,
    float6e3m2 = 28,
};

/// "float32", "int8", ...; "type 99" for a number ONNX does not define.
std::string to_string(DataType type);

/// The type named as `to_string` names it, or `undefined`.
DataType data_type_from_name(std::string_view name);

/// Bits of one element; 0 for string and undefined.
std::size_t bit_width(DataType type);

/// True for float16, bfloat16, float32 and float64.
bool is_floating(DataType type);

/// Sizes of a tensor, outermost first. A negative entry means: not known until run time.
using Shape = std::vector<std::int64_t>;

/// "1x3x224x224"; "?" for a dimension not known; "scalar" for rank 0.
std::string to_string(const Shape& shape);

/// Number of elements; -1 if a dimension is not known or the product overflows int64.
std::int64_t element_count(const Shape& shape);

/// Bytes of `count` elements, sub-byte types packed and rounded up.
std::size_t byte_size(DataType type, std::size_t count);

/// Memory somebody else owns, with the type and shape to read it by. Row-major, densely packed.
struct TensorView {
    std::string name;
    DataType type = DataType::undefined;
    Shape shape;
    std::span<std::byte> bytes;

    template <class T>
    std::span<T> as() const {
        return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
};

/// A tensor that owns its memory.
struct HostTensor {
    std::string name;
    DataType type = DataType::undefined;
    Shape shape;
    std::vector<std::byte> bytes;

    HostTensor() = default;
    HostTensor(std::string name_, DataType type_, Shape shape_);

    TensorView view() { return {name, type, shape, bytes}; }
    template <class T>
    std::span<T> as() {
        return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
    template <class T>
    std::span<const T> as() const {
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
};

} // namespace lathe
