#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "passes/evaluate_support.hpp"

namespace lathe::evaluation {
namespace {

template <class T>
constexpr bool is_float = std::is_floating_point_v<T>;

/// Wrapping arithmetic without the undefined behaviour of signed overflow.
std::int64_t wrapped(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }
std::uint64_t bits_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// `apply(x, valid)` on each element; it clears `valid` where the operator has no value.
template <class Apply>
Outputs unary(const Call& call, Apply apply) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_CHECK(check_size(call, input->type(), input->shape()));
    LATHE_TRY(auto elements, elements_of(call, *input));
    bool valid = true;
    std::visit(
        [&](auto& values) {
            for (auto& value : values)
                value = apply(value, valid);
        },
        elements);
    if (!valid) return cannot(call, "not defined for " + to_string(input->type()));
    return std::vector<Tensor>{tensor_from(input->type(), input->shape(), elements)};
}

/// Functions that exist for floating point only.
template <class Apply>
Outputs unary_float(const Call& call, Apply apply) {
    return unary(call, [apply](auto x, bool& valid) {
        if constexpr (is_float<decltype(x)>) {
            return static_cast<decltype(x)>(apply(x));
        } else {
            valid = false;
            return x;
        }
    });
}

/// Broadcast `apply(a, b, valid)`; the result has `result` as its type, or the inputs' if undefined.
template <class Apply>
Result<Tensor> binary(const Call& call, const Tensor& a, const Tensor& b, DataType result, Apply apply) {
    const auto shape = broadcast_shape(a.shape(), b.shape());
    if (!shape) return invalid(call, "shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) + " do not fit");
    if (a.type() != b.type()) return invalid(call, "the inputs have different types");
    LATHE_CHECK(check_size(call, a.type(), *shape));
    LATHE_TRY(const auto left, elements_of(call, a));
    LATHE_TRY(const auto right, elements_of(call, b));
    std::vector<std::size_t> right_offsets(static_cast<std::size_t>(element_count(*shape)));
    walk(*shape, broadcast_strides(b.shape(), *shape), 0,
         [&](std::size_t i, std::size_t offset) { right_offsets[i] = offset; });
    bool valid = true;
    Elements out;
    std::visit(
        [&](const auto& xs) {
            using Values = std::decay_t<decltype(xs)>;
            const auto& ys = std::get<Values>(right);
            Values values(right_offsets.size());
            walk(*shape, broadcast_strides(a.shape(), *shape), 0, [&](std::size_t i, std::size_t offset) {
                using T = typename Values::value_type;
                values[i] = static_cast<T>(apply(xs[offset], ys[right_offsets[i]], valid));
            });
            out = std::move(values);
        },
        left);
    if (!valid) return cannot(call, "a result is not defined");
    return tensor_from(result == DataType::undefined ? a.type() : result, *shape, out);
}

template <class Apply>
Outputs binary_call(const Call& call, DataType result, Apply apply) {
    if (call.options.opset < 7 && call.node.attribute("broadcast") != nullptr) {
        return cannot(call, "the limited broadcasting of opset 6 and before");
    }
    LATHE_TRY(const Tensor* a, call.required(0));
    LATHE_TRY(const Tensor* b, call.required(1));
    LATHE_TRY(auto tensor, binary(call, *a, *b, result, apply));
    return std::vector<Tensor>{std::move(tensor)};
}

template <class Apply>
Outputs variadic(const Call& call, Apply apply) {
    LATHE_TRY(const Tensor* first, call.required(0));
    Tensor total = *first;
    for (std::size_t i = 1; i < call.inputs.size(); ++i) {
        LATHE_TRY(const Tensor* next, call.required(i));
        LATHE_TRY(total, binary(call, total, *next, DataType::undefined, apply));
    }
    return std::vector<Tensor>{std::move(total)};
}

struct Plus {
    template <class T>
    T operator()(T a, T b, bool&) const {
        if constexpr (is_float<T>)
            return a + b;
        else
            return wrapped(bits_of(a) + bits_of(b));
    }
};
struct Minus {
    template <class T>
    T operator()(T a, T b, bool&) const {
        if constexpr (is_float<T>)
            return a - b;
        else
            return wrapped(bits_of(a) - bits_of(b));
    }
};
struct Times {
    template <class T>
    T operator()(T a, T b, bool&) const {
        if constexpr (is_float<T>)
            return a * b;
        else
            return wrapped(bits_of(a) * bits_of(b));
    }
};
struct Quotient {
    template <class T>
    T operator()(T a, T b, bool& valid) const {
        if constexpr (is_float<T>) {
            return a / b;
        } else {
            if (b == 0 || (b == -1 && a == std::numeric_limits<T>::min())) {
                valid = false;
                return 0;
            }
            return a / b;
        }
    }
};
struct Power {
    template <class T>
    T operator()(T a, T b, bool& valid) const {
        if constexpr (is_float<T>) {
            return std::pow(a, b);
        } else {
            valid = valid && b >= 0 && b < 64;
            T result = 1;
            for (T i = 0; valid && i < b; ++i)
                result = wrapped(bits_of(result) * bits_of(a));
            return result;
        }
    }
};
/// Like numpy's: a NaN on either side is the result.
struct Least {
    template <class T>
    T operator()(T a, T b, bool&) const {
        if constexpr (is_float<T>) {
            if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
        }
        return std::min(a, b);
    }
};
struct Greatest {
    template <class T>
    T operator()(T a, T b, bool&) const {
        if constexpr (is_float<T>) {
            if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
        }
        return std::max(a, b);
    }
};

Outputs modulo(const Call& call) {
    const bool like_c = call.node.int_or("fmod", 0) != 0;
    return binary_call(call, DataType::undefined, [like_c](auto a, auto b, bool& valid) {
        using T = decltype(a);
        if constexpr (is_float<T>) {
            valid = valid && like_c;
            return std::fmod(a, b);
        } else {
            if (b == 0 || b == -1) {
                valid = valid && b != 0;
                return T{0};
            }
            const T rest = a % b;
            return !like_c && rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
        }
    });
}

Outputs power(const Call& call) {
    LATHE_TRY(const Tensor* base, call.required(0));
    LATHE_TRY(const Tensor* exponent, call.required(1));
    if (base->type() == exponent->type()) return binary_call(call, DataType::undefined, Power{});
    if (!is_floating(base->type())) return cannot(call, "an integer to the power of another type");
    // Since opset 12 the exponent may have another type; the result has the base's.
    LATHE_TRY(const auto values, elements_of(call, *exponent));
    const Tensor same_type = tensor_from(base->type(), exponent->shape(), values);
    LATHE_TRY(auto result, binary(call, *base, same_type, DataType::undefined, Power{}));
    return std::vector<Tensor>{std::move(result)};
}

template <class Compare>
Outputs comparison(const Call& call, Compare compare) {
    return binary_call(call, DataType::boolean, [compare](auto a, auto b, bool&) { return compare(a, b) ? 1 : 0; });
}

Outputs where(const Call& call) {
    LATHE_TRY(const Tensor* condition, call.required(0));
    LATHE_TRY(const Tensor* yes, call.required(1));
    LATHE_TRY(const Tensor* no, call.required(2));
    const auto values = broadcast_shape(yes->shape(), no->shape());
    const auto shape = values ? broadcast_shape(condition->shape(), *values) : std::nullopt;
    if (!shape || condition->type() != DataType::boolean || yes->type() != no->type()) {
        return invalid(call, "the inputs do not fit together");
    }
    const std::size_t width = element_bytes(yes->type());
    if (width == 0) return cannot(call, "elements of " + to_string(yes->type()));
    LATHE_CHECK(check_size(call, yes->type(), *shape));
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(*shape)) * width);
    std::vector<bool> chosen(static_cast<std::size_t>(element_count(*shape)));
    const auto flags = condition->values<std::uint8_t>();
    walk(*shape, broadcast_strides(condition->shape(), *shape), 0,
         [&](std::size_t i, std::size_t offset) { chosen[i] = flags[offset] != 0; });
    for (const bool side : {true, false}) {
        const Tensor& source = side ? *yes : *no;
        walk(*shape, broadcast_strides(source.shape(), *shape), 0, [&](std::size_t i, std::size_t offset) {
            if (chosen[i] != side) return;
            std::memcpy(bytes.data() + i * width, source.bytes().data() + offset * width, width);
        });
    }
    return std::vector<Tensor>{Tensor("", yes->type(), *shape, bytes)};
}

/// Range of an integer type as doubles: [low, high).
std::optional<std::pair<double, double>> integer_range(DataType type) {
    const auto bits = static_cast<int>(bit_width(type));
    switch (type) {
        case DataType::int8:
        case DataType::int16:
        case DataType::int32:
        case DataType::int64: return std::pair{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1)};
        case DataType::uint8:
        case DataType::uint16:
        case DataType::uint32: return std::pair{0.0, std::ldexp(1.0, bits)};
        default: return std::nullopt;
    }
}

Outputs cast_to(const Call& call, const Tensor& input, DataType to) {
    if (to == input.type()) return std::vector<Tensor>{input};
    LATHE_CHECK(check_size(call, to, input.shape()));
    LATHE_TRY(const auto elements, elements_of(call, input));
    const auto range = integer_range(to);
    if (!is_floating(to) && to != DataType::boolean && !range) return cannot(call, "a cast to " + to_string(to));
    bool valid = true;
    if (range) {
        // Outside its range the conversion of a floating-point number is not defined, and runtimes differ.
        std::visit(
            [&](const auto& values) {
                using T = typename std::decay_t<decltype(values)>::value_type;
                if constexpr (is_float<T>) {
                    valid = std::all_of(values.begin(), values.end(), [&](T x) {
                        const double whole = std::trunc(static_cast<double>(x));
                        return whole >= range->first && whole < range->second;
                    });
                }
            },
            elements);
    }
    if (!valid) return cannot(call, "a value does not fit " + to_string(to));
    return std::vector<Tensor>{tensor_from(to, input.shape(), elements)};
}

Outputs cast(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    return cast_to(call, *input, static_cast<DataType>(call.node.int_or("to", 0)));
}

Outputs cast_like(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* target, call.required(1));
    return cast_to(call, *input, target->type());
}

Outputs clip(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    Tensor result = *input;
    const auto bound = [&](const char* attribute, std::size_t index, auto apply) -> Result<void> {
        if (call.options.opset < 11 && call.node.attribute(attribute) != nullptr) {
            const Tensor limit = tensor_from(input->type(), {}, std::vector<float>{call.node.float_or(attribute, 0)});
            LATHE_TRY(result, binary(call, result, limit, DataType::undefined, apply));
        } else if (const Tensor* limit = call.input(index)) {
            LATHE_TRY(result, binary(call, result, *limit, DataType::undefined, apply));
        }
        return {};
    };
    // The order of the specification: where min > max, every element becomes max.
    LATHE_CHECK(bound("min", 1, Greatest{}));
    LATHE_CHECK(bound("max", 2, Least{}));
    return std::vector<Tensor>{std::move(result)};
}

template <class T>
T sign(T x) {
    if (x > 0) return 1;
    return x < 0 ? T(-1) : x;
}

} // namespace

void add_elementwise(FunctionTable& table) {
    table["Add"] = [](const Call& c) { return binary_call(c, DataType::undefined, Plus{}); };
    table["Sub"] = [](const Call& c) { return binary_call(c, DataType::undefined, Minus{}); };
    table["Mul"] = [](const Call& c) { return binary_call(c, DataType::undefined, Times{}); };
    table["Div"] = [](const Call& c) { return binary_call(c, DataType::undefined, Quotient{}); };
    table["Pow"] = power;
    table["Mod"] = modulo;
    table["Sum"] = [](const Call& c) { return variadic(c, Plus{}); };
    table["Min"] = [](const Call& c) { return variadic(c, Least{}); };
    table["Max"] = [](const Call& c) { return variadic(c, Greatest{}); };
    table["Equal"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a == b; }); };
    table["Greater"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a > b; }); };
    table["GreaterOrEqual"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a >= b; }); };
    table["Less"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a < b; }); };
    table["LessOrEqual"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a <= b; }); };
    table["And"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a != 0 && b != 0; }); };
    table["Or"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return a != 0 || b != 0; }); };
    table["Xor"] = [](const Call& c) { return comparison(c, [](auto a, auto b) { return (a != 0) != (b != 0); }); };
    table["Where"] = where;
    table["Cast"] = cast;
    table["CastLike"] = cast_like;
    table["Clip"] = clip;
    table["Identity"] = [](const Call& c) -> Outputs {
        LATHE_TRY(const Tensor* input, c.required(0));
        return std::vector<Tensor>{*input};
    };
    table["Not"] = [](const Call& c) { return unary(c, [](auto x, bool&) { return x != 0 ? decltype(x)(0) : 1; }); };
    table["Neg"] = [](const Call& c) {
        return unary(c, [](auto x, bool&) {
            if constexpr (is_float<decltype(x)>)
                return -x;
            else
                return wrapped(0 - bits_of(x));
        });
    };
    table["Abs"] = [](const Call& c) {
        return unary(c, [](auto x, bool&) {
            if constexpr (is_float<decltype(x)>)
                return std::abs(x);
            else
                return x < 0 ? wrapped(0 - bits_of(x)) : x;
        });
    };
    table["Sign"] = [](const Call& c) { return unary(c, [](auto x, bool&) { return sign(x); }); };
    table["Relu"] = [](const Call& c) { return unary(c, [](auto x, bool&) { return x < 0 ? decltype(x)(0) : x; }); };
    table["Sqrt"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::sqrt(x); }); };
    table["Exp"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::exp(x); }); };
    table["Log"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::log(x); }); };
    table["Floor"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::floor(x); }); };
    table["Ceil"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::ceil(x); }); };
    // Halves go to even, as nearbyint does in the default rounding mode.
    table["Round"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::nearbyint(x); }); };
    table["Reciprocal"] = [](const Call& c) { return unary_float(c, [](auto x) { return 1 / x; }); };
    table["Erf"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::erf(x); }); };
    table["Tanh"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::tanh(x); }); };
    table["Sigmoid"] = [](const Call& c) { return unary_float(c, [](auto x) { return 1 / (1 + std::exp(-x)); }); };
    table["Sin"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::sin(x); }); };
    table["Cos"] = [](const Call& c) { return unary_float(c, [](auto x) { return std::cos(x); }); };
}

} // namespace lathe::evaluation
