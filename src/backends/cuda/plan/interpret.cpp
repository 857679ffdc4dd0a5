#include "backends/cuda/plan/interpret.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "backends/cuda/plan/interpret_state.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/rows.hpp"
#include "support/half.hpp"

namespace lathe::cuda {
namespace {

/// The number in two's complement, cut off behind the point; what 64 bits do not hold becomes the nearest that they do.
std::uint64_t low_bits(double value) {
    if (std::isnan(value)) return 0;
    if (value >= 18446744073709551616.0) return std::numeric_limits<std::uint64_t>::max();
    if (value >= 9223372036854775808.0) return static_cast<std::uint64_t>(value);
    if (value < -9223372036854775808.0) return std::uint64_t{1} << 63U;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

double read(const std::byte* bytes, ElementType type) {
    const auto as = [&](auto example) {
        std::memcpy(&example, bytes, sizeof example);
        return example;
    };
    switch (type) {
        case ElementType::f32: return static_cast<double>(as(0.0F));
        case ElementType::f16: return static_cast<double>(float_from_half(as(std::uint16_t{})));
        case ElementType::bf16: return static_cast<double>(float_from_bfloat16(as(std::uint16_t{})));
        case ElementType::s8: return as(std::int8_t{});
        case ElementType::boolean: return as(std::uint8_t{}) != 0 ? 1 : 0;
        case ElementType::s32: return as(std::int32_t{});
        case ElementType::s64: return static_cast<double>(as(std::int64_t{}));
        case ElementType::u8: return as(std::uint8_t{});
        case ElementType::s16: return as(std::int16_t{});
        case ElementType::u16: return as(std::uint16_t{});
        case ElementType::u32: return as(std::uint32_t{});
        case ElementType::u64: return static_cast<double>(as(std::uint64_t{}));
        case ElementType::f64: return as(0.0);
    }
    return 0;
}

void write(std::byte* bytes, ElementType type, double value) {
    const auto put = [&](auto number) { std::memcpy(bytes, &number, sizeof number); };
    switch (type) {
        case ElementType::f32: put(static_cast<float>(value)); break;
        case ElementType::f16: put(half_from_float(static_cast<float>(value))); break;
        case ElementType::bf16: put(bfloat16_from_float(static_cast<float>(value))); break;
        case ElementType::s8: put(static_cast<std::int8_t>(rounded(value, ElementType::s8, true))); break;
        case ElementType::boolean: put(static_cast<std::uint8_t>(value != 0 ? 1 : 0)); break;
        case ElementType::f64: put(value); break;
        case ElementType::u8:
        case ElementType::s16:
        case ElementType::u16:
        case ElementType::s32:
        case ElementType::u32:
        case ElementType::s64:
        case ElementType::u64: { // little-endian: the low bytes come first
            const std::uint64_t number = low_bits(value);
            std::memcpy(bytes, &number, bytes_of(type));
            break;
        }
    }
}

Numbers numbers_of(std::span<const std::byte> bytes, ElementType type) {
    const std::size_t size = bytes_of(type);
    Numbers numbers(bytes.size() / size);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = read(&bytes[i * size], type);
    return numbers;
}

DataType data_type(ElementType type) {
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

/// Numbers of an image in the order of its memory (channels innermost), or back; it has no padding.
Numbers channels_moved(const Numbers& numbers, const Shape& dims, bool innermost) {
    const auto channels = static_cast<std::size_t>(dims[1]);
    const auto plane = static_cast<std::size_t>(element_count(Shape(dims.begin() + 2, dims.end())));
    Numbers moved(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t in_memory = (i / plane / channels * plane + i % plane) * channels + i / plane % channels;
        moved[innermost ? in_memory : i] = numbers[innermost ? i : in_memory];
    }
    return moved;
}

/// What an alias reads in the bytes of another value.
Numbers seen_as(const Numbers& numbers, const Value& from, const Value& to) {
    const auto count = static_cast<std::ptrdiff_t>(element_count(to.dims));
    if (numbers.empty()) return {}; // not made yet
    if (count != static_cast<std::ptrdiff_t>(numbers.size())) {
        // A part is of whole samples, so that its numbers lie side by side here too.
        const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(to.alias_from);
        return {begin, begin + count};
    }
    if (from.layout == to.layout &&
        (from.layout == Layout::linear || (from.dims[0] == to.dims[0] && from.dims[1] == to.dims[1])))
        return numbers;
    const Numbers bytes = from.layout == Layout::nhwc ? channels_moved(numbers, from.dims, true) : numbers;
    return to.layout == Layout::nhwc ? channels_moved(bytes, to.dims, false) : bytes;
}

/// Channels from `first` on of a whole image's numbers, to or from the part's own.
void move_part(const Value& part, const Value& whole, Numbers& own, Numbers& all, bool to_whole) {
    const auto plane = static_cast<std::size_t>(element_count(Shape(part.dims.begin() + 2, part.dims.end())));
    const auto run = static_cast<std::size_t>(part.dims[1]) * plane;
    for (std::size_t n = 0; n < static_cast<std::size_t>(part.dims[0]); ++n) {
        const std::size_t at =
            (n * static_cast<std::size_t>(whole.dims[1]) + static_cast<std::size_t>(part.alias_from)) * plane;
        Numbers& from = to_whole ? own : all;
        Numbers& to = to_whole ? all : own;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(to_whole ? n * run : at), run,
                    to.begin() + static_cast<std::ptrdiff_t>(to_whole ? at : n * run));
    }
}

/// Parts that are read from images, and images that are written in parts: both have numbers of their own here.
class PartKeeper {
public:
    explicit PartKeeper(Interpretation& state) : state_(state) {
        for (const FusedOp& op : state.plan.ops)
            for (const ValueId id : op.outputs)
                if (state.value(id).part) missing_[state.value(id).alias_of] += state.value(id).dims[1];
    }
    /// An image of which parts are not written yet is not seen by aliases.
    bool complete(ValueId whole) const {
        const auto found = missing_.find(whole);
        return found == missing_.end() || found->second == 0;
    }
    void before(const FusedOp& op) {
        for (const ValueId id : op.inputs) {
            const Value& part = state_.value(id);
            if (!part.part) continue;
            state_.values[id].resize(static_cast<std::size_t>(element_count(part.dims)));
            move_part(part, state_.value(part.alias_of), state_.values[id], state_.values[part.alias_of], false);
        }
    }
    void after(const FusedOp& op) {
        for (const ValueId id : op.outputs) {
            const Value& part = state_.value(id);
            if (!part.part) continue;
            const Value& whole = state_.value(part.alias_of);
            state_.values[part.alias_of].resize(static_cast<std::size_t>(element_count(whole.dims)),
                                                std::numeric_limits<double>::quiet_NaN());
            move_part(part, whole, state_.values[id], state_.values[part.alias_of], true);
            missing_[part.alias_of] -= part.dims[1];
        }
    }

private:
    Interpretation& state_;
    std::map<ValueId, std::int64_t> missing_; ///< channels, by image
};

} // namespace

double wrapped(double value, ElementType type) {
    const std::uint64_t bits = low_bits(value);
    switch (type) {
        case ElementType::s8: return static_cast<std::int8_t>(bits);
        case ElementType::u8: return static_cast<std::uint8_t>(bits);
        case ElementType::s16: return static_cast<std::int16_t>(bits);
        case ElementType::u16: return static_cast<std::uint16_t>(bits);
        case ElementType::s32: return static_cast<std::int32_t>(bits);
        case ElementType::u32: return static_cast<std::uint32_t>(bits);
        default: return value;
    }
}

double rounded(double value, ElementType type, bool round) {
    switch (type) {
        case ElementType::f32: return round ? static_cast<double>(static_cast<float>(value)) : value;
        case ElementType::f16:
            return round ? static_cast<double>(float_from_half(half_from_float(static_cast<float>(value)))) : value;
        case ElementType::bf16:
            return round ? static_cast<double>(float_from_bfloat16(bfloat16_from_float(static_cast<float>(value))))
                         : value;
        case ElementType::s8: // not a number becomes 0, as in the card's saturating conversions
            return std::isnan(value) ? 0 : std::clamp(round ? std::nearbyint(value) : value, -128.0, 127.0);
        case ElementType::boolean: return value != 0 ? 1 : 0;
        case ElementType::f64: return value;
        case ElementType::s64:
        case ElementType::u64: return std::trunc(value);
        case ElementType::u8:
        case ElementType::s16:
        case ElementType::u16:
        case ElementType::s32:
        case ElementType::u32: return round ? wrapped(value, type) : std::trunc(value);
    }
    return value;
}

Numbers Interpretation::real(ValueId id) const {
    Numbers numbers = values[id];
    if (value(id).type == ElementType::s8) {
        for (double& number : numbers)
            number = (number - value(id).zero_point) * static_cast<double>(value(id).scale);
    }
    return numbers;
}

void Interpretation::store(ValueId id, Numbers numbers) {
    for (double& number : numbers)
        number = rounded(number, value(id).type, options.round_values);
    values[id] = std::move(numbers);
}

void Interpretation::store_real(ValueId id, Numbers numbers) {
    if (value(id).type == ElementType::s8) {
        for (double& number : numbers)
            number = number / static_cast<double>(value(id).scale) + value(id).zero_point;
    }
    store(id, std::move(numbers));
}

Numbers Interpretation::weight(WeightId id) const {
    const Weight& weight = plan.weights->weights[id];
    return numbers_of(weight.bytes, weight.type);
}

Result<std::vector<HostTensor>> interpret(const Plan& plan, std::span<const TensorView> inputs,
                                          const InterpretOptions& options) {
    LATHE_CHECK(verify(plan));
    if (inputs.size() != plan.inputs.size()) {
        return Error{ErrorCode::invalid_argument, "the plan has " + std::to_string(plan.inputs.size()) + " inputs", "",
                     "give each"};
    }
    Interpretation state{plan, options, std::vector<Numbers>(plan.values.size())};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = plan.values[plan.inputs[i]];
        if (inputs[i].type != data_type(value.type) || inputs[i].shape != value.dims ||
            inputs[i].bytes.size() != value.byte_size()) {
            return Error{ErrorCode::invalid_argument, "the input is not of the plan's type and shape", value.name, ""};
        }
        state.values[plan.inputs[i]] = numbers_of(inputs[i].bytes, value.type);
    }
    for (ValueId id = 0; id < plan.values.size(); ++id) {
        if (plan.values[id].role == Role::constant) state.values[id] = state.weight(plan.values[id].weight);
    }
    PartKeeper parts(state);
    const auto fill_aliases = [&] {
        for (ValueId id = 0; id < plan.values.size(); ++id) {
            const ValueId of = plan.values[id].alias_of;
            if (of != none && !plan.values[id].part && state.values[id].empty() && parts.complete(of))
                state.values[id] = seen_as(state.values[of], plan.values[of], plan.values[id]);
        }
    };
    fill_aliases();
    for (const FusedOp& op : plan.ops) {
        parts.before(op);
        if (auto done = interpret_op(state, op); !done) return std::move(done).error().in(op.name);
        for (const ValueId id : op.outputs) {
            if (state.values[id].size() != static_cast<std::size_t>(element_count(plan.values[id].dims))) {
                return Error{ErrorCode::internal, "a result has another size than its value", op.name, ""};
            }
        }
        parts.after(op);
        fill_aliases();
    }
    std::vector<ValueId> wanted = plan.outputs;
    if (options.keep_all) {
        wanted.clear();
        for (ValueId id = 0; id < plan.values.size(); ++id)
            wanted.push_back(id);
    }
    std::vector<HostTensor> results;
    for (const ValueId id : wanted) {
        const Value& value = plan.values[id];
        HostTensor tensor(value.name, data_type(value.type), value.dims);
        for (std::size_t i = 0; i < state.values[id].size(); ++i)
            write(&tensor.bytes[i * bytes_of(value.type)], value.type, state.values[id][i]);
        results.push_back(std::move(tensor));
    }
    if (options.keep_all) return results;
    for (std::size_t i = 0; i < plan.open.size(); ++i) {
        const double count = state.values[plan.outputs[plan.model_outputs() + i]][0];
        HostTensor& cut = results[plan.open[i].output];
        const std::size_t size = byte_size(cut.type, 1);
        cut_rows(cut.bytes, size, cut.shape, plan.open[i].axis, static_cast<std::int64_t>(count));
        cut.bytes.resize(static_cast<std::size_t>(element_count(cut.shape)) * size);
    }
    results.resize(plan.model_outputs());
    return results;
}

} // namespace lathe::cuda
