#include "passes/verification.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/half.hpp"
#include "support/memory_limit.hpp"

namespace lathe {
namespace {

std::int64_t small_size(std::size_t axis, std::size_t rank) {
    if (axis == 0) return 2;
    return rank == 4 && axis >= 2 ? 64 : 16;
}

/// First size of the table that a Gather takes rows from by this value, directly or through Cast and reshaping.
std::optional<std::int64_t> table_size(const Graph& graph, const Uses& uses, const std::string& value, int depth = 0) {
    if (depth > 4) return std::nullopt;
    for (const Node* reader : uses.consumers(value)) {
        if (reader->is("Gather") && reader->input(1) == value) {
            const Tensor* table = graph.initializer(reader->input(0));
            const auto axis = static_cast<std::size_t>(std::max<std::int64_t>(0, reader->int_or("axis", 0)));
            if (table != nullptr && axis < table->shape().size()) return table->shape()[axis];
        }
        if (reader->is("Cast") || reader->is("Unsqueeze") || reader->is("Squeeze") || reader->is("Reshape") ||
            reader->is("Identity")) {
            if (const auto size = table_size(graph, uses, reader->output(0), depth + 1)) return size;
        }
    }
    return std::nullopt;
}

class Filler {
public:
    Filler(std::uint64_t seed, std::size_t set) : random_(seed * 1000003 + set), set_(set) {}

    bool fill(HostTensor& tensor, std::optional<std::int64_t> table) {
        const std::int64_t past = std::max<std::int64_t>(1, table.value_or(2));
        switch (tensor.type) {
            case DataType::float32: each<float>(tensor, [&] { return real(); }); break;
            case DataType::float64: each<double>(tensor, [&] { return static_cast<double>(real()); }); break;
            case DataType::float16: each<std::uint16_t>(tensor, [&] { return half_from_float(real()); }); break;
            case DataType::bfloat16: each<std::uint16_t>(tensor, [&] { return bfloat16_from_float(real()); }); break;
            case DataType::boolean: each<std::uint8_t>(tensor, [&] { return integer<std::uint8_t>(2); }); break;
            case DataType::uint8: each<std::uint8_t>(tensor, [&] { return integer<std::uint8_t>(256); }); break;
            case DataType::int8:
                each<std::int8_t>(tensor, [&] { return static_cast<std::int8_t>(integer<int>(256) - 128); });
                break;
            case DataType::int16: each<std::int16_t>(tensor, [&] { return integer<std::int16_t>(past); }); break;
            case DataType::uint16: each<std::uint16_t>(tensor, [&] { return integer<std::uint16_t>(past); }); break;
            case DataType::int32: each<std::int32_t>(tensor, [&] { return integer<std::int32_t>(past); }); break;
            case DataType::uint32: each<std::uint32_t>(tensor, [&] { return integer<std::uint32_t>(past); }); break;
            case DataType::int64: each<std::int64_t>(tensor, [&] { return integer<std::int64_t>(past); }); break;
            case DataType::uint64: each<std::uint64_t>(tensor, [&] { return integer<std::uint64_t>(past); }); break;
            default: return false;
        }
        return true;
    }

private:
    template <class T, class Draw>
    static void each(HostTensor& tensor, Draw draw) {
        for (T& element : tensor.as<T>())
            element = draw();
    }

    float real() {
        if (set_ == 0) return std::normal_distribution<float>()(random_);
        const float low = set_ == 1 ? 0.0F : -3.0F;
        return std::uniform_real_distribution<float>(low, set_ == 1 ? 1.0F : 3.0F)(random_);
    }

    template <class T>
    T integer(std::int64_t past) {
        return static_cast<T>(std::uniform_int_distribution<std::int64_t>(0, past - 1)(random_));
    }

    std::mt19937_64 random_;
    std::size_t set_;
};

std::vector<double> as_doubles(const HostTensor& tensor) {
    const Tensor view("", tensor.type, tensor.shape, tensor.bytes);
    if (tensor.type == DataType::float64) {
        const auto values = view.values<double>();
        return {values.begin(), values.end()};
    }
    const auto values = view.to_floats();
    return {values.begin(), values.end()};
}

Difference compare_floats(const HostTensor& expected, const HostTensor& actual) {
    Difference result{0, expected.name, "", false};
    const auto x = as_doubles(expected);
    const auto y = as_doubles(actual);
    double scale = 0;
    double worst = 0;
    std::size_t finite = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isfinite(x[i]) && std::isfinite(y[i])) {
            scale = std::max(scale, std::abs(x[i]));
            worst = std::max(worst, std::abs(x[i] - y[i]));
            ++finite;
        } else if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))) {
            result.relative = std::numeric_limits<double>::infinity();
            result.problem = "NaN or infinity appears or disappears";
            return result;
        }
    }
    result.nothing_finite = finite == 0 && !x.empty();
    if (worst > 0) result.relative = worst / std::max(scale, 1e-30);
    return result;
}

Difference compare_one(const HostTensor& expected, const HostTensor& actual) {
    Difference result{0, expected.name, "", false};
    const auto incomparable = [&](std::string problem) {
        result.relative = std::numeric_limits<double>::infinity();
        result.problem = std::move(problem);
        return result;
    };
    if (expected.shape != actual.shape) {
        return incomparable("its shape was " + to_string(expected.shape) + " and is " + to_string(actual.shape));
    }
    if (expected.type != actual.type) {
        return incomparable("its type was " + to_string(expected.type) + " and is " + to_string(actual.type));
    }
    if (expected.bytes.size() != actual.bytes.size()) return incomparable("its size in bytes changed");
    if (is_floating(expected.type)) return compare_floats(expected, actual);
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, element_count(expected.shape)));
    const std::size_t width = std::max<std::size_t>(1, expected.bytes.size() / count);
    std::size_t different = 0;
    for (std::size_t i = 0; i + width <= expected.bytes.size(); i += width) {
        const auto first = expected.bytes.begin() + static_cast<std::ptrdiff_t>(i);
        const auto other = actual.bytes.begin() + static_cast<std::ptrdiff_t>(i);
        if (!std::equal(first, first + static_cast<std::ptrdiff_t>(width), other)) ++different;
    }
    result.relative = static_cast<double>(different) / static_cast<double>(count);
    return result;
}

} // namespace

Result<std::vector<HostTensor>> random_inputs(const Model& model, std::uint64_t seed, std::size_t set) {
    std::vector<HostTensor> inputs;
    std::map<std::string, std::int64_t> symbols;
    Filler filler(seed, set);
    const Uses uses(model.graph);
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        if (!input.dims || input.type == DataType::undefined) {
            return Error{ErrorCode::unsupported, "random inputs need an input's type and rank", "input " + input.name,
                         "export the model with typed inputs"};
        }
        Shape shape;
        for (std::size_t axis = 0; axis < input.dims->size(); ++axis) {
            const Dimension& dim = (*input.dims)[axis];
            std::int64_t size = dim.size.value_or(small_size(axis, input.dims->size()));
            if (!dim.size && !dim.symbol.empty()) size = symbols.emplace(dim.symbol, size).first->second;
            shape.push_back(size);
        }
        const std::int64_t count = element_count(shape);
        constexpr std::int64_t limit = std::int64_t{1} << 30;
        if (count < 0 || count > limit || byte_size(input.type, static_cast<std::size_t>(count)) > memory_limit()) {
            return Error{ErrorCode::out_of_range, "an input is too large to verify on: " + to_string(shape),
                         "input " + input.name, "export the model with smaller or dynamic input sizes"};
        }
        HostTensor tensor(input.name, input.type, shape);
        if (!filler.fill(tensor, table_size(model.graph, uses, input.name))) {
            return Error{ErrorCode::unsupported, "cannot make random values of type " + to_string(input.type),
                         "input " + input.name, "only numeric and boolean inputs can be verified on"};
        }
        inputs.push_back(std::move(tensor));
    }
    return inputs;
}

Difference compare_outputs(std::span<const HostTensor> expected, std::span<const HostTensor> actual) {
    Difference worst;
    if (expected.size() != actual.size()) {
        worst.relative = std::numeric_limits<double>::infinity();
        worst.problem = "the number of outputs changed";
        return worst;
    }
    bool nothing_finite = false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        Difference one = compare_one(expected[i], actual[i]);
        // Half precision rounds by 2^-11 or more where float32 rounds by 2^-24.
        if (bit_width(expected[i].type) == 16 && is_floating(expected[i].type)) one.relative /= 16;
        nothing_finite = nothing_finite || one.nothing_finite;
        if (i == 0 || one.relative > worst.relative) worst = std::move(one);
    }
    worst.nothing_finite = nothing_finite;
    return worst;
}

} // namespace lathe
