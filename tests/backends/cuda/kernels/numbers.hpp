#pragma once
// Stored numbers of every type that plans have, and random ones for the inputs of test plans.

#include <cstring>
#include <random>

#include "backends/cuda/plan/ir.hpp"
#include "lathe/types.hpp"
#include "support/half.hpp"

namespace lathe::cuda::test {

inline double number(const std::byte* at, ElementType type) {
    const auto as = [&](auto example) {
        std::memcpy(&example, at, sizeof example);
        return example;
    };
    switch (type) {
        case ElementType::f32: return static_cast<double>(as(0.0F));
        case ElementType::f16: return static_cast<double>(float_from_half(as(std::uint16_t{})));
        case ElementType::bf16: return static_cast<double>(float_from_bfloat16(as(std::uint16_t{})));
        case ElementType::s8: return as(std::int8_t{});
        case ElementType::s32: return as(std::int32_t{});
        case ElementType::s64: return static_cast<double>(as(std::int64_t{}));
        case ElementType::boolean:
        case ElementType::u8: return as(std::uint8_t{});
        case ElementType::s16: return as(std::int16_t{});
        case ElementType::u16: return as(std::uint16_t{});
        case ElementType::u32: return as(std::uint32_t{});
        case ElementType::u64: return static_cast<double>(as(std::uint64_t{}));
        case ElementType::f64: return as(0.0);
    }
    return 0;
}

inline DataType data_type_of(ElementType type) {
    switch (type) {
        case ElementType::f32: return DataType::float32;
        case ElementType::f16: return DataType::float16;
        case ElementType::bf16: return DataType::bfloat16;
        case ElementType::s8: return DataType::int8;
        case ElementType::s32: return DataType::int32;
        case ElementType::s64: return DataType::int64;
        case ElementType::boolean: return DataType::boolean;
        case ElementType::u8: return DataType::uint8;
        case ElementType::s16: return DataType::int16;
        case ElementType::u16: return DataType::uint16;
        case ElementType::u32: return DataType::uint32;
        case ElementType::u64: return DataType::uint64;
        case ElementType::f64: return DataType::float64;
    }
    return DataType::undefined;
}

/// int64: 0..19, which may be indices; narrow integers: all that they hold; floats: normal.
inline HostTensor random_input(const Value& v, std::mt19937& random) {
    HostTensor tensor(v.name, data_type_of(v.type), v.dims);
    std::normal_distribution<float> normal;
    const auto fill = [&]<class T>(T, int low, int high) {
        std::uniform_int_distribution<int> integers(low, high);
        for (T& n : tensor.as<T>())
            n = static_cast<T>(integers(random));
    };
    switch (v.type) {
        case ElementType::s64: fill(std::int64_t{}, 0, 19); break;
        case ElementType::s32: fill(std::int32_t{}, -10, 9); break;
        case ElementType::boolean: fill(std::uint8_t{}, 0, 1); break;
        case ElementType::s8: fill(std::int8_t{}, -128, 127); break;
        case ElementType::u8: fill(std::uint8_t{}, 0, 255); break;
        case ElementType::s16: fill(std::int16_t{}, -32768, 32767); break;
        case ElementType::u16: fill(std::uint16_t{}, 0, 65535); break;
        case ElementType::u32: fill(std::uint32_t{}, 0, 100'000); break;
        case ElementType::u64: fill(std::uint64_t{}, 0, 100'000); break;
        case ElementType::f64:
            for (double& d : tensor.as<double>())
                d = static_cast<double>(normal(random));
            break;
        default:
            for (float& f : tensor.as<float>())
                f = normal(random);
    }
    return tensor;
}

} // namespace lathe::cuda::test
