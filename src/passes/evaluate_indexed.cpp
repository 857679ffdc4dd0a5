#include <algorithm>
#include <utility>

#include "passes/evaluate_support.hpp"

namespace lathe::evaluation {
namespace {

/// Runs of neighbouring elements of a tensor that indices name: the offset of each, and how long they are.
struct Places {
    std::size_t run = 1;
    std::vector<std::size_t> offsets;
};

/// An index from the end made one from the front; nothing if it is out of bounds.
std::optional<std::int64_t> checked_index(std::int64_t index, std::int64_t size) {
    if (index < -size || index >= size) return std::nullopt;
    return index < 0 ? index + size : index;
}

/// Nothing where they are no integers.
std::optional<std::vector<std::int64_t>> integers_of(const Tensor& indices) {
    auto numbers = indices.to_int64s();
    return numbers.size() == indices.count() ? std::optional(std::move(numbers)) : std::nullopt;
}

/// GatherND's and ScatterND's: the last axis of the indices holds a place along the axes behind the first `batch_dims`.
std::optional<Places> places_of_tuples(const Shape& shape, const Tensor& indices, std::size_t batch_dims) {
    if (indices.shape().empty() || indices.shape().back() < 1) return std::nullopt;
    const auto width = static_cast<std::size_t>(indices.shape().back());
    if (batch_dims + width > shape.size() || batch_dims + 1 > indices.shape().size()) return std::nullopt;
    Places found;
    for (std::size_t i = batch_dims + width; i < shape.size(); ++i)
        found.run *= static_cast<std::size_t>(shape[i]);
    std::size_t samples = 1;
    for (std::size_t i = 0; i < batch_dims; ++i) {
        if (shape[i] != indices.shape()[i]) return std::nullopt;
        samples *= static_cast<std::size_t>(shape[i]);
    }
    const auto numbers = integers_of(indices);
    if (!numbers) return std::nullopt;
    const std::size_t count = numbers->size() / width;
    for (std::size_t which = 0; which < count; ++which) {
        std::size_t offset = samples == 0 ? 0 : which / (count / samples);
        for (std::size_t k = 0; k < width; ++k) {
            const auto index = checked_index((*numbers)[which * width + k], shape[batch_dims + k]);
            if (!index) return std::nullopt;
            offset = offset * static_cast<std::size_t>(shape[batch_dims + k]) + static_cast<std::size_t>(*index);
        }
        found.offsets.push_back(offset * found.run);
    }
    return found;
}

/// GatherElements' and ScatterElements': a place along `axis`, at the index's own along the others.
std::optional<Places> places_of_elements(const Shape& shape, const Tensor& indices, std::int64_t given_axis) {
    const auto axis = normalised_axis(given_axis, shape.size());
    if (!axis || indices.shape().size() != shape.size()) return std::nullopt;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (d != *axis && indices.shape()[d] > shape[d]) return std::nullopt;
    const auto numbers = integers_of(indices);
    if (!numbers) return std::nullopt;
    auto strides = strides_of(shape);
    const std::int64_t step = std::exchange(strides[*axis], 0);
    Places found;
    bool within = true;
    walk(indices.shape(), strides, 0, [&](std::size_t i, std::size_t at) {
        const auto index = checked_index((*numbers)[i], shape[*axis]);
        within = within && index;
        found.offsets.push_back(at + static_cast<std::size_t>(index.value_or(0) * step));
    });
    return within ? std::optional(std::move(found)) : std::nullopt;
}

/// What the places hold, one behind the other.
Outputs gathered(const Call& call, const Tensor& input, const std::optional<Places>& places, const Shape& shape) {
    const std::size_t width = element_bytes(input.type());
    if (width == 0) return cannot(call, "elements of " + to_string(input.type()));
    if (!places) return invalid(call, "indices that do not fit, or are out of bounds");
    LATHE_CHECK(check_size(call, input.type(), shape));
    std::vector<std::byte> bytes;
    for (const std::size_t offset : places->offsets) {
        const auto run = input.bytes().subspan(offset * width, places->run * width);
        bytes.insert(bytes.end(), run.begin(), run.end());
    }
    return std::vector<Tensor>{Tensor("", input.type(), shape, bytes)};
}

/// The input with the third input's elements at the places.
Outputs scattered(const Call& call, const Tensor& input, const std::optional<Places>& places) {
    LATHE_TRY(const Tensor* updates, call.required(2));
    const std::size_t width = element_bytes(input.type());
    if (width == 0 || call.node.string_or("reduction", "none") != "none")
        return cannot(call, "a reduction, or elements of " + to_string(input.type()));
    if (!places || updates->type() != input.type() || updates->count() != places->offsets.size() * places->run)
        return invalid(call, "indices or updates that do not fit, or are out of bounds");
    LATHE_CHECK(check_size(call, input.type(), input.shape()));
    std::vector<std::byte> bytes(input.bytes().begin(), input.bytes().end());
    for (std::size_t i = 0; i < places->offsets.size(); ++i) {
        const auto run = updates->bytes().subspan(i * places->run * width, places->run * width);
        std::copy(run.begin(), run.end(), bytes.begin() + static_cast<std::ptrdiff_t>(places->offsets[i] * width));
    }
    return std::vector<Tensor>{Tensor("", input.type(), input.shape(), bytes)};
}

Outputs gather_nd(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* indices, call.required(1));
    const auto batch_dims = static_cast<std::size_t>(std::max<std::int64_t>(0, call.node.int_or("batch_dims", 0)));
    const auto places = places_of_tuples(input->shape(), *indices, batch_dims);
    Shape shape;
    if (places) {
        const auto named = static_cast<std::ptrdiff_t>(batch_dims) + indices->shape().back();
        shape.assign(indices->shape().begin(), indices->shape().end() - 1);
        shape.insert(shape.end(), input->shape().begin() + named, input->shape().end());
    }
    return gathered(call, *input, places, shape);
}

Outputs scatter_nd(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* indices, call.required(1));
    return scattered(call, *input, places_of_tuples(input->shape(), *indices, 0));
}

Outputs gather_by_element(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* indices, call.required(1));
    const auto places = places_of_elements(input->shape(), *indices, call.node.int_or("axis", 0));
    return gathered(call, *input, places, indices->shape());
}

Outputs scatter_by_element(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* indices, call.required(1));
    return scattered(call, *input, places_of_elements(input->shape(), *indices, call.node.int_or("axis", 0)));
}

/// A new axis of `depth` places, `on` at the index's and `off` at the others; an index out of bounds has none.
Outputs one_hot(const Call& call) {
    LATHE_TRY(const Tensor* indices, call.required(0));
    LATHE_TRY(const Tensor* depth, call.required(1));
    LATHE_TRY(const Tensor* values, call.required(2)); // off, on
    const auto size = integers_of(*depth);
    const auto numbers = integers_of(*indices);
    const auto axis = normalised_axis(call.node.int_or("axis", -1), indices->shape().size() + 1);
    const std::size_t bytes = element_bytes(values->type());
    if (!size || !numbers) return cannot(call, "only integers as indices and depth are evaluated");
    if (size->size() != 1 || values->count() != 2 || !axis || (*size)[0] < 0)
        return invalid(call, "it needs one depth, two values and an axis within bounds");
    if (bytes == 0) return cannot(call, "values of this type are not evaluated");
    Shape shape = indices->shape();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), (*size)[0]);
    LATHE_CHECK(check_size(call, values->type(), shape));
    const auto inner = static_cast<std::size_t>(
        element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, shape.end())));
    const auto places = static_cast<std::size_t>((*size)[0]);
    std::vector<std::byte> made(static_cast<std::size_t>(element_count(shape)) * bytes);
    for (std::size_t i = 0; i * bytes < made.size(); ++i) {
        const std::size_t row = i / inner / places * inner + i % inner;
        const auto place = checked_index((*numbers)[row], (*size)[0]);
        const bool on = place && static_cast<std::size_t>(*place) == i / inner % places;
        const auto value = values->bytes().subspan(on ? bytes : 0, bytes);
        std::copy(value.begin(), value.end(), made.begin() + static_cast<std::ptrdiff_t>(i * bytes));
    }
    return std::vector<Tensor>{Tensor("", values->type(), std::move(shape), made)};
}

} // namespace

void add_indexed(FunctionTable& table) {
    table["GatherND"] = gather_nd;
    table["ScatterND"] = scatter_nd;
    table["GatherElements"] = gather_by_element;
    table["ScatterElements"] = scatter_by_element;
    table["OneHot"] = one_hot;
}

} // namespace lathe::evaluation
