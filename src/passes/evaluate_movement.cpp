#include <algorithm>
#include <limits>
#include <numeric>

#include "passes/evaluate_support.hpp"

// Operators that copy elements from one place to another.
namespace lathe::evaluation {
namespace {

/// A tensor without elements. Its other dimensions may be huge, and are not to be counted through.
Outputs nothing(DataType type, const Shape& shape) { return std::vector<Tensor>{Tensor("", type, shape, {})}; }

Outputs transpose(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const std::size_t rank = input->shape().size();
    std::vector<std::int64_t> reversed(rank);
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    const auto order = call.node.ints_or("perm", reversed);
    if (!std::is_permutation(order.begin(), order.end(), reversed.begin(), reversed.end())) {
        return invalid(call, "perm is not a permutation of the axes");
    }
    const auto own = strides_of(input->shape());
    Shape shape(rank);
    std::vector<std::int64_t> strides(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        shape[i] = input->shape()[static_cast<std::size_t>(order[i])];
        strides[i] = own[static_cast<std::size_t>(order[i])];
    }
    return gather_elements(call, *input, shape, strides, 0);
}

Outputs expand(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* target, call.required(1));
    const auto shape = broadcast_shape(input->shape(), target->to_int64s());
    if (!shape || element_count(*shape) < 0) return invalid(call, "the shapes do not fit");
    return gather_elements(call, *input, *shape, broadcast_strides(input->shape(), *shape), 0);
}

Outputs concat(const Call& call) {
    LATHE_TRY(const Tensor* first, call.required(0));
    const std::size_t width = element_bytes(first->type());
    const auto axis = normalised_axis(call.node.int_or("axis", 1), first->shape().size());
    if (!axis) return invalid(call, "axis out of range");
    if (width == 0) return cannot(call, "elements of " + to_string(first->type()));
    Shape shape = first->shape();
    shape[*axis] = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        LATHE_TRY(const Tensor* next, call.required(i));
        Shape expected = next->shape();
        if (next->type() != first->type() || expected.size() != shape.size()) return invalid(call, "inputs differ");
        shape[*axis] += std::exchange(expected[*axis], shape[*axis]);
        expected[*axis] = shape[*axis];
        if (expected != shape) return invalid(call, "the inputs' shapes do not fit");
    }
    LATHE_CHECK(check_size(call, first->type(), shape));
    if (element_count(shape) == 0) return nothing(first->type(), shape);
    const auto axis_offset = static_cast<std::ptrdiff_t>(*axis);
    const std::int64_t outer = element_count(Shape(shape.begin(), shape.begin() + axis_offset));
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<std::size_t>(element_count(shape)) * width);
    for (std::int64_t row = 0; row < outer; ++row) {
        for (const Tensor* input : call.inputs) {
            const auto part = input->bytes();
            const std::size_t length = part.size() / static_cast<std::size_t>(outer);
            const auto begin = part.begin() + static_cast<std::ptrdiff_t>(length) * row;
            bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
        }
    }
    return std::vector<Tensor>{Tensor("", first->type(), shape, bytes)};
}

Outputs slice(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto starts = call.integers("starts", 1);
    const auto ends = call.integers("ends", 2);
    if (!starts || !ends || starts->size() != ends->size()) return invalid(call, "starts and ends do not fit");
    std::vector<std::int64_t> all(starts->size());
    std::iota(all.begin(), all.end(), 0);
    const auto axes = call.integers("axes", 3).value_or(all);
    const Tensor* step_input = call.input(4);
    const auto steps = step_input == nullptr ? std::vector<std::int64_t>(starts->size(), 1) : step_input->to_int64s();
    if (axes.size() != starts->size() || steps.size() != starts->size())
        return invalid(call, "axes or steps do not fit");
    Shape shape = input->shape();
    auto strides = strides_of(shape);
    std::int64_t base = 0;
    std::vector<bool> sliced(shape.size(), false);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto axis = normalised_axis(axes[i], shape.size());
        const std::int64_t step = steps[i];
        if (!axis || sliced[*axis] || step == 0 || step == std::numeric_limits<std::int64_t>::min()) {
            return invalid(call, "an axis or step is not valid");
        }
        sliced[*axis] = true;
        const std::int64_t length = input->shape()[*axis];
        const auto clamped = [&](std::int64_t at) {
            if (at < 0) at += length;
            return step > 0 ? std::clamp<std::int64_t>(at, 0, length) : std::clamp<std::int64_t>(at, -1, length - 1);
        };
        // INT64_MIN as an end means "past the beginning"; adding the length must not wrap it.
        const std::int64_t end = (*ends)[i] < -length ? (step > 0 ? 0 : -1) : clamped((*ends)[i]);
        const std::int64_t start =
            (*starts)[i] < -length ? (step > 0 ? 0 : std::min<std::int64_t>(0, length - 1)) : clamped((*starts)[i]);
        const std::int64_t distance = step > 0 ? end - start : start - end;
        const std::int64_t stride = step > 0 ? step : -step;
        shape[*axis] = distance <= 0 ? 0 : 1 + (distance - 1) / stride;
        if (shape[*axis] > 0) base += start * strides[*axis];
        // With one element the stride is not used, and a huge step would overflow it.
        strides[*axis] = shape[*axis] > 1 ? strides[*axis] * step : 0;
    }
    return gather_elements(call, *input, shape, strides, base);
}

Outputs gather(const Call& call) {
    LATHE_TRY(const Tensor* data, call.required(0));
    LATHE_TRY(const Tensor* indices, call.required(1));
    const std::size_t width = element_bytes(data->type());
    const auto axis = normalised_axis(call.node.int_or("axis", 0), data->shape().size());
    if (!axis) return invalid(call, "axis out of range");
    if (width == 0) return cannot(call, "elements of " + to_string(data->type()));
    const auto places = indices->to_int64s();
    const auto cut = data->shape().begin() + static_cast<std::ptrdiff_t>(*axis);
    const Shape outer_shape(data->shape().begin(), cut);
    const Shape inner_shape(cut + 1, data->shape().end());
    Shape shape = outer_shape;
    shape.insert(shape.end(), indices->shape().begin(), indices->shape().end());
    shape.insert(shape.end(), inner_shape.begin(), inner_shape.end());
    if (places.size() != indices->count()) return invalid(call, "the indices are no integers");
    LATHE_CHECK(check_size(call, data->type(), shape));
    if (element_count(shape) == 0) return nothing(data->type(), shape);
    const auto outer = static_cast<std::size_t>(element_count(outer_shape));
    const std::size_t block = static_cast<std::size_t>(element_count(inner_shape)) * width;
    const std::int64_t length = *cut;
    std::vector<std::byte> bytes;
    bytes.reserve(outer * places.size() * block);
    for (std::size_t row = 0; row < outer; ++row) {
        for (const std::int64_t place : places) {
            const std::int64_t at = place < 0 ? place + length : place;
            if (at < 0 || at >= length) return invalid(call, "index " + std::to_string(place) + " is out of range");
            const auto from = (row * static_cast<std::size_t>(length) + static_cast<std::size_t>(at)) * block;
            const auto source = data->bytes().subspan(from, block);
            bytes.insert(bytes.end(), source.begin(), source.end());
        }
    }
    return std::vector<Tensor>{Tensor("", data->type(), shape, bytes)};
}

Outputs tile(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* repeats, call.required(1));
    const auto times = repeats->to_int64s();
    const std::size_t rank = input->shape().size();
    if (call.inputs.size() > 2 || times.size() != rank) return cannot(call, "repeats do not fit the rank");
    // As an expanded view: each axis becomes (repeats, size) with stride 0 for the repeats.
    Shape view;
    Shape shape;
    std::vector<std::int64_t> strides;
    const auto own = strides_of(input->shape());
    for (std::size_t i = 0; i < rank; ++i) {
        if (times[i] < 0) return invalid(call, "a repeat is negative");
        view.insert(view.end(), {times[i], input->shape()[i]});
        strides.insert(strides.end(), {0, own[i]});
        const std::int64_t length = element_count({times[i], input->shape()[i]});
        if (length < 0) return invalid(call, "a repeat is too large");
        shape.push_back(length);
    }
    LATHE_TRY(auto tiled, gather_elements(call, *input, view, strides, 0));
    return std::vector<Tensor>{tiled.front().reshaped(shape)};
}

Outputs pad(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    if (call.node.string_or("mode", "constant") != "constant") return cannot(call, "only the constant mode is known");
    const auto pads = call.integers("pads", 1);
    const std::size_t rank = input->shape().size();
    if (!pads || call.input(3) != nullptr || pads->size() != 2 * rank) return cannot(call, "pads of another form");
    const std::size_t width = element_bytes(input->type());
    if (width == 0) return cannot(call, "elements of " + to_string(input->type()));
    Shape shape = input->shape();
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t before = (*pads)[i];
        const std::int64_t after = (*pads)[i + rank];
        constexpr std::int64_t largest = std::int64_t{1} << 40;
        if (before < 0 || after < 0) return cannot(call, "negative pads");
        if (before > largest || after > largest) return invalid(call, "a pad is too large");
        shape[i] += before + after;
    }
    LATHE_CHECK(check_size(call, input->type(), shape));
    if (element_count(shape) == 0) return nothing(input->type(), shape);
    std::vector<std::byte> value(width);
    if (const Tensor* given = call.input(2)) {
        if (given->type() != input->type() || given->count() != 1) return invalid(call, "the pad value does not fit");
        std::copy_n(given->bytes().begin(), width, value.begin());
    } else if (const float number = call.node.float_or("value", 0); number != 0) {
        const Tensor filled = tensor_from(input->type(), {}, std::vector<float>{number});
        if (filled.bytes().size() != width) return cannot(call, "a pad value of " + to_string(input->type()));
        std::copy_n(filled.bytes().begin(), width, value.begin());
    }
    std::vector<std::byte> bytes;
    const auto count = static_cast<std::size_t>(element_count(shape));
    bytes.reserve(count * width);
    for (std::size_t i = 0; i < count; ++i)
        bytes.insert(bytes.end(), value.begin(), value.end());
    const auto to = strides_of(shape);
    std::int64_t base = 0;
    for (std::size_t i = 0; i < rank; ++i)
        base += (*pads)[i] * to[i];
    walk(input->shape(), to, base, [&](std::size_t i, std::size_t offset) {
        std::memcpy(bytes.data() + offset * width, input->bytes().data() + i * width, width);
    });
    return std::vector<Tensor>{Tensor("", input->type(), shape, bytes)};
}

Outputs split(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const auto axis = normalised_axis(call.node.int_or("axis", 0), input->shape().size());
    if (!axis) return invalid(call, "axis out of range");
    const std::int64_t length = input->shape()[*axis];
    const auto parts = static_cast<std::int64_t>(call.node.outputs.size());
    std::vector<std::int64_t> sizes(call.node.outputs.size(), (length + parts - 1) / std::max<std::int64_t>(1, parts));
    if (const auto given = call.integers("split", 1)) {
        sizes = *given;
    } else if (!sizes.empty()) {
        // Since opset 18 the last part may be smaller; before, the length must divide evenly.
        sizes.back() = length - sizes.front() * (parts - 1);
    }
    std::int64_t total = 0;
    for (const std::int64_t part : sizes) {
        if (part < 0 || part > length) return invalid(call, "a part is not valid");
        total += part;
    }
    if (total != length || sizes.size() != call.node.outputs.size()) return invalid(call, "the parts do not fit");
    std::vector<Tensor> outputs;
    const auto strides = strides_of(input->shape());
    std::int64_t start = 0;
    for (const std::int64_t part : sizes) {
        Shape shape = input->shape();
        shape[*axis] = part;
        LATHE_TRY(auto tensor, gather_elements(call, *input, shape, strides, start * strides[*axis]));
        outputs.push_back(std::move(tensor.front()));
        start += part;
    }
    return outputs;
}

Outputs trilu(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const Shape& shape = input->shape();
    const std::size_t width = element_bytes(input->type());
    if (shape.size() < 2 || width == 0) return cannot(call, "elements of " + to_string(input->type()));
    const Tensor* given = call.input(1);
    const auto diagonal = given != nullptr ? given->to_int64s() : std::vector<std::int64_t>{0};
    if (diagonal.size() != 1) return invalid(call, "k is no integer scalar");
    const std::int64_t k = diagonal[0];
    const bool upper = call.node.int_or("upper", 1) != 0;
    std::vector<std::byte> bytes(input->bytes().begin(), input->bytes().end());
    const std::int64_t columns = shape.back();
    const std::int64_t rows = shape[shape.size() - 2];
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
        const std::int64_t across = i % columns - i / columns % rows; // >= k is above the k-th diagonal, or on it
        if (upper ? across >= k : across <= k) continue;
        std::fill_n(bytes.begin() + i * static_cast<std::int64_t>(width), width, std::byte{0});
    }
    return std::vector<Tensor>{Tensor("", input->type(), shape, bytes)};
}

Outputs non_zero(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    if (input->shape().empty()) return cannot(call, "a scalar");
    LATHE_TRY(const auto elements, elements_of(call, *input));
    std::vector<std::int64_t> found;
    std::visit(
        [&](const auto& values) {
            for (std::size_t i = 0; i < values.size(); ++i) {
                if (values[i] != 0) found.push_back(static_cast<std::int64_t>(i));
            }
        },
        elements);
    const auto strides = strides_of(input->shape());
    const Shape shape{static_cast<std::int64_t>(strides.size()), static_cast<std::int64_t>(found.size())};
    LATHE_CHECK(check_size(call, DataType::int64, shape));
    std::vector<std::int64_t> indices;
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
        for (const std::int64_t at : found)
            indices.push_back(at / strides[axis] % input->shape()[axis]);
    }
    return std::vector<Tensor>{Tensor::of_int64s("", shape, indices)};
}

} // namespace

void add_movement(FunctionTable& table) {
    table["Transpose"] = transpose;
    table["Expand"] = expand;
    table["Concat"] = concat;
    table["Slice"] = slice;
    table["Gather"] = gather;
    table["Tile"] = tile;
    table["Trilu"] = trilu;
    table["Pad"] = pad;
    table["Split"] = split;
    table["NonZero"] = non_zero;
}

} // namespace lathe::evaluation
