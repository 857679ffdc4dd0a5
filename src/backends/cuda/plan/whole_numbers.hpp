#pragma once

#include <cmath>
#include <cstdint>

#include "backends/cuda/plan/grid_sample.hpp"

/// ONNX's arithmetic of whole numbers, for the interpreter and the kernel: in 64 bits of two's complement, of which the
/// result's type keeps the low ones. `plain`: the operands are unsigned numbers of 64 bits.
namespace lathe::cuda::whole {

using Bits = std::uint64_t;

LATHE_BOTH_SIDES inline std::int64_t power(std::int64_t base, std::int64_t exponent, bool plain) {
    if (exponent < 0 && !plain) { // what is left of 1 / n
        if (base == 1) return 1;
        if (base == -1) return exponent % 2 == 0 ? 1 : -1;
        return 0;
    }
    Bits result = 1, square = static_cast<Bits>(base);
    for (Bits left = static_cast<Bits>(exponent); left != 0; left >>= 1U) {
        if ((left & 1U) != 0) result *= square;
        square *= square;
    }
    return static_cast<std::int64_t>(result);
}

/// Division by 0 gives 0, and so does what is left of it.
LATHE_BOTH_SIDES inline std::int64_t computed(Integer how, std::int64_t a, std::int64_t b, std::int64_t c, bool plain) {
    const Bits x = static_cast<Bits>(a), y = static_cast<Bits>(b);
    const bool less = plain ? x < y : a < b;
    switch (how) {
        case Integer::add: return static_cast<std::int64_t>(x + y);
        case Integer::subtract: return static_cast<std::int64_t>(x - y);
        case Integer::multiply: return static_cast<std::int64_t>(x * y);
        case Integer::divide:
            if (b == 0) return 0;
            if (plain) return static_cast<std::int64_t>(x / y);
            return b == -1 ? static_cast<std::int64_t>(Bits{0} - x) : a / b;
        case Integer::remainder:
        case Integer::remainder_of_c: {
            if (b == 0) return 0;
            if (plain) return static_cast<std::int64_t>(x % y);
            if (b == -1) return 0;
            const std::int64_t rest = a % b;
            return how == Integer::remainder && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        }
        case Integer::smallest: return less ? a : b;
        case Integer::largest: return less ? b : a;
        case Integer::bits_and: return a & b;
        case Integer::bits_or: return a | b;
        case Integer::bits_xor: return a ^ b;
        case Integer::equal: return a == b ? 1 : 0;
        case Integer::less: return less ? 1 : 0;
        case Integer::greater: return !less && a != b ? 1 : 0;
        case Integer::less_equal: return less || a == b ? 1 : 0;
        case Integer::greater_equal: return less ? 0 : 1;
        case Integer::shift_left: return y > 63 ? 0 : static_cast<std::int64_t>(x << y);
        case Integer::shift_right: // what is shifted by more than all bits, or backwards, is all sign
            if (plain) return y > 63 ? 0 : static_cast<std::int64_t>(x >> y);
            return a >> (y > 63 ? 63U : y);
        case Integer::power: return power(a, b, plain);
        case Integer::negate: return static_cast<std::int64_t>(Bits{0} - x);
        case Integer::absolute: return a < 0 && !plain ? static_cast<std::int64_t>(Bits{0} - x) : a;
        case Integer::convert: return a;
        case Integer::bits_not: return ~a;
        case Integer::sign: return a == 0 ? 0 : a < 0 && !plain ? -1 : 1;
        case Integer::choose: return a != 0 ? b : c;
        case Integer::remainder_of_reals:
        case Integer::remainder_of_reals_c:
        case Integer::power_of_reals: break; // see below
    }
    return 0;
}

/// What is computed with numbers that may have a fraction.
LATHE_BOTH_SIDES inline bool is_of_reals(Integer how) {
    return how == Integer::remainder_of_reals || how == Integer::remainder_of_reals_c || how == Integer::power_of_reals;
}
LATHE_BOTH_SIDES inline double computed(Integer how, double a, double b) {
    if (how == Integer::power_of_reals) return std::pow(a, b);
    const double rest = std::fmod(a, b);
    if (how == Integer::remainder_of_reals_c) return rest;
    if (rest == 0) return std::copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

} // namespace lathe::cuda::whole
