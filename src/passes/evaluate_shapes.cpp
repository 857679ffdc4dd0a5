#include <algorithm>
#include <cmath>
#include <type_traits>

#include "passes/evaluate_support.hpp"

// Operators that read or change shapes, or make tensors out of shapes.
namespace lathe::evaluation {
namespace {

/// No network has as many, and all that is done for a value is done for each of its axes.
constexpr std::size_t most_axes = 64;

Tensor int64_tensor(Shape shape, const std::vector<std::int64_t>& values) {
    return Tensor::of_int64s("", std::move(shape), values);
}

Outputs shape(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto rank = static_cast<std::int64_t>(input->shape().size());
    const auto bound = [&](const char* attribute, std::int64_t otherwise) {
        const std::int64_t given = call.node.int_or(attribute, otherwise);
        return std::clamp<std::int64_t>(given < 0 ? given + rank : given, 0, rank);
    };
    const std::int64_t start = bound("start", 0);
    const std::int64_t end = std::max(start, bound("end", rank));
    const Shape part(input->shape().begin() + start, input->shape().begin() + end);
    return std::vector<Tensor>{int64_tensor({end - start}, part)};
}

Outputs size(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    return std::vector<Tensor>{int64_tensor({}, {element_count(input->shape())})};
}

Outputs reshaped(const Call& call, const Tensor& input, Shape to) {
    if (element_count(to) != element_count(input.shape())) {
        return invalid(call, "shape " + to_string(input.shape()) + " cannot become " + to_string(to));
    }
    return std::vector<Tensor>{input.reshaped(std::move(to))};
}

Outputs reshape(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto target = call.integers("shape", 1);
    if (!target) return invalid(call, "the target shape is missing");
    Shape to = *target;
    const bool keep_zero = call.node.int_or("allowzero", 0) != 0;
    std::optional<std::size_t> open;
    std::int64_t known = 1;
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (to[i] == 0 && !keep_zero) {
            if (i >= input->shape().size()) return invalid(call, "a 0 has no dimension to copy");
            to[i] = input->shape()[i];
        }
        if (to[i] < -1 || (to[i] == -1 && open)) return invalid(call, "the target shape is not valid");
        if (to[i] == -1) {
            open = i;
        } else if (__builtin_mul_overflow(known, to[i], &known)) {
            return invalid(call, "the target shape does not fit");
        }
    }
    if (open) {
        if (known == 0) return invalid(call, "-1 beside 0 is ambiguous");
        to[*open] = element_count(input->shape()) / known;
    }
    return reshaped(call, *input, std::move(to));
}

Outputs flatten(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const Shape& from = input->shape();
    const auto rank = static_cast<std::int64_t>(from.size());
    std::int64_t axis = call.node.int_or("axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) return invalid(call, "axis out of range");
    const Shape outer(from.begin(), from.begin() + axis);
    const Shape inner(from.begin() + axis, from.end());
    return reshaped(call, *input, {element_count(outer), element_count(inner)});
}

Outputs squeeze(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto axes = call.integers("axes", 1);
    std::vector<bool> drop(input->shape().size(), false);
    for (std::size_t i = 0; !axes && i < drop.size(); ++i)
        drop[i] = input->shape()[i] == 1;
    for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>{})) {
        const auto place = normalised_axis(axis, drop.size());
        if (!place || input->shape()[*place] != 1) return invalid(call, "an axis cannot be squeezed");
        drop[*place] = true;
    }
    Shape to;
    for (std::size_t i = 0; i < drop.size(); ++i) {
        if (!drop[i]) to.push_back(input->shape()[i]);
    }
    return reshaped(call, *input, std::move(to));
}

Outputs unsqueeze(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto axes = call.integers("axes", 1);
    if (!axes) return invalid(call, "axes are missing");
    if (axes->size() > most_axes) return cannot(call, std::to_string(axes->size()) + " axes");
    const std::size_t rank = input->shape().size() + axes->size();
    std::vector<bool> added(rank, false);
    for (const std::int64_t axis : *axes) {
        const auto place = normalised_axis(axis, rank);
        if (!place || added[*place]) return invalid(call, "an axis is out of range or given twice");
        added[*place] = true;
    }
    Shape to;
    auto next = input->shape().begin();
    for (std::size_t i = 0; i < rank; ++i)
        to.push_back(added[i] ? 1 : *next++);
    return reshaped(call, *input, std::move(to));
}

Outputs range(const Call& call) {
    LATHE_TRY(const Tensor* first, call.required(0));
    LATHE_TRY(const Tensor* limit, call.required(1));
    LATHE_TRY(const Tensor* step, call.required(2));
    if (first->count() != 1 || limit->count() != 1 || step->count() != 1 || first->type() != limit->type() ||
        first->type() != step->type()) {
        return invalid(call, "start, limit and delta must be scalars of one type");
    }
    LATHE_TRY(const auto start, elements_of(call, *first));
    LATHE_TRY(const auto end, elements_of(call, *limit));
    LATHE_TRY(const auto delta, elements_of(call, *step));
    return std::visit(
        [&](const auto& starts) -> Outputs {
            using Values = std::decay_t<decltype(starts)>;
            using T = typename Values::value_type;
            const T from = starts[0];
            const T by = std::get<Values>(delta)[0];
            const double span = static_cast<double>(std::get<Values>(end)[0]) - static_cast<double>(from);
            const double steps = std::ceil(span / static_cast<double>(by));
            if (std::isnan(steps) || by == T{0} || steps > 1e9) return cannot(call, "the range has no sensible length");
            const Shape shape{static_cast<std::int64_t>(std::max(0.0, steps))};
            LATHE_CHECK(check_size(call, first->type(), shape));
            Values values(static_cast<std::size_t>(shape[0]));
            for (std::size_t i = 0; i < values.size(); ++i) {
                if constexpr (std::is_integral_v<T>) { // whose product may pass the last step's range on the way
                    values[i] = static_cast<T>(static_cast<std::uint64_t>(from) +
                                               static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(by));
                } else {
                    values[i] = from + static_cast<T>(i) * by;
                }
            }
            return std::vector<Tensor>{tensor_from(first->type(), shape, values)};
        },
        start);
}

Outputs constant_of_shape(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const Shape shape = input->to_int64s();
    if (shape.size() > most_axes) return cannot(call, std::to_string(shape.size()) + " axes");
    const Attribute* attribute = call.node.attribute("value");
    const auto* given = attribute == nullptr ? nullptr : std::get_if<Tensor>(&attribute->value);
    const float zero = 0;
    const Tensor value = given == nullptr ? Tensor::of_floats("", {1}, std::span(&zero, 1)) : *given;
    if (value.count() != 1) return invalid(call, "the value must have one element");
    if (element_count(shape) < 0) return invalid(call, "the shape is not valid");
    return gather_elements(call, value, shape, std::vector<std::int64_t>(shape.size(), 0), 0);
}

} // namespace

void add_shapes(FunctionTable& table) {
    table["Shape"] = shape;
    table["Size"] = size;
    table["Reshape"] = reshape;
    table["Flatten"] = flatten;
    table["Squeeze"] = squeeze;
    table["Unsqueeze"] = unsqueeze;
    table["Range"] = range;
    table["ConstantOfShape"] = constant_of_shape;
}

} // namespace lathe::evaluation
