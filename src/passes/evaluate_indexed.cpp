#include <cstring>

#include "passes/evaluate_support.hpp"

namespace lathe::evaluation {
namespace {

/// The indices along an axis of this size, counted from the end where negative.
Result<std::int64_t> within(const Call& call, std::int64_t index, std::int64_t size) {
    const std::int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size) return invalid(call, "an index beyond its axis");
    return at;
}

Result<std::vector<std::int64_t>> integers_of(const Call& call, const Tensor& tensor) {
    if (tensor.type() != DataType::int64 && tensor.type() != DataType::int32)
        return invalid(call, "its indices are no integers");
    return tensor.to_int64s();
}

/// Bytes of each element; 0 where elements have none of their own.
std::size_t width_of(const Tensor& tensor) {
    const std::size_t bits = bit_width(tensor.type());
    return bits % 8 == 0 ? bits / 8 : 0;
}

/// For each element of the indices, the place in `data` that it names along `axis`, at its own index along the others.
Result<std::vector<std::size_t>> elements_named(const Call& call, const Tensor& data, const Tensor& indices) {
    const Shape& shape = data.shape();
    const auto axis = normalised_axis(call.node.int_or("axis", 0), shape.size());
    if (!axis || indices.shape().size() != shape.size()) return invalid(call, "its axis or the rank of its indices");
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (d != *axis && indices.shape()[d] > shape[d]) return invalid(call, "its indices are larger than its data");
    LATHE_TRY(const std::vector<std::int64_t> which, integers_of(call, indices));
    const auto own = strides_of(shape);
    auto strides = own;
    strides[*axis] = 0;
    std::vector<std::size_t> places(which.size());
    Result<void> fits;
    walk(indices.shape(), strides, 0, [&](std::size_t i, std::size_t at) {
        const auto index = within(call, which[i], shape[*axis]);
        if (!index && fits) fits = index.error();
        if (index) places[i] = at + static_cast<std::size_t>(*index * own[*axis]);
    });
    LATHE_CHECK(fits);
    return places;
}

/// For each row of the indices, the place in `data` at which what it names begins; behind `batch` axes that both share.
Result<std::vector<std::size_t>> blocks_named(const Call& call, const Tensor& data, const Tensor& indices,
                                              std::size_t batch) {
    const Shape& shape = data.shape();
    const Shape& rows = indices.shape();
    if (rows.empty() || rows.back() < 1 || batch >= rows.size() ||
        batch + static_cast<std::size_t>(rows.back()) > shape.size())
        return invalid(call, "indices of more axes than its data has");
    for (std::size_t d = 0; d < batch; ++d)
        if (rows[d] != shape[d]) return invalid(call, "its batches do not fit");
    const auto depth = static_cast<std::size_t>(rows.back());
    const auto own = strides_of(shape);
    LATHE_TRY(const std::vector<std::int64_t> which, integers_of(call, indices));
    const std::size_t count = which.size() / depth;
    const auto batches =
        static_cast<std::size_t>(element_count(Shape(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(batch))));
    std::vector<std::size_t> places(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t block = batch == 0 ? 0 : static_cast<std::size_t>(own[batch - 1]);
        std::int64_t at = static_cast<std::int64_t>((batches == 0 ? 0 : i / (count / batches)) * block);
        for (std::size_t d = 0; d < depth; ++d) {
            LATHE_TRY(const std::int64_t index, within(call, which[i * depth + d], shape[batch + d]));
            at += index * own[batch + d];
        }
        places[i] = static_cast<std::size_t>(at);
    }
    return places;
}

/// Copies runs of `run` elements between a tensor's bytes and places in another's.
Outputs gathered(const Call& call, const Tensor& data, const std::vector<std::size_t>& places, std::size_t run,
                 Shape shape) {
    const std::size_t width = width_of(data);
    if (width == 0) return cannot(call, "elements of " + to_string(data.type()) + " have no bytes of their own");
    LATHE_CHECK(check_size(call, data.type(), shape));
    std::vector<std::byte> bytes(places.size() * run * width);
    for (std::size_t i = 0; i < places.size(); ++i)
        std::memcpy(bytes.data() + i * run * width, data.bytes().data() + places[i] * width, run * width);
    return std::vector<Tensor>{Tensor("", data.type(), std::move(shape), bytes)};
}

Outputs scattered(const Call& call, const Tensor& data, const Tensor& updates, const std::vector<std::size_t>& places,
                  std::size_t run) {
    const std::size_t width = width_of(data);
    if (width == 0) return cannot(call, "elements of " + to_string(data.type()) + " have no bytes of their own");
    if (call.node.string_or("reduction", "none") != "none") return cannot(call, "with a reduction");
    if (updates.type() != data.type() || updates.count() != places.size() * run)
        return invalid(call, "its updates do not fit its indices");
    LATHE_CHECK(check_size(call, data.type(), data.shape()));
    std::vector<std::byte> bytes(data.bytes().begin(), data.bytes().end());
    for (std::size_t i = 0; i < places.size(); ++i)
        std::memcpy(bytes.data() + places[i] * width, updates.bytes().data() + i * run * width, run * width);
    return std::vector<Tensor>{Tensor("", data.type(), data.shape(), bytes)};
}

Outputs gather_elements_node(const Call& call) {
    LATHE_TRY(const Tensor* const data, call.required(0));
    LATHE_TRY(const Tensor* const indices, call.required(1));
    LATHE_TRY(const auto places, elements_named(call, *data, *indices));
    return gathered(call, *data, places, 1, indices->shape());
}

Outputs scatter_elements(const Call& call) {
    LATHE_TRY(const Tensor* const data, call.required(0));
    LATHE_TRY(const Tensor* const indices, call.required(1));
    LATHE_TRY(const Tensor* const updates, call.required(2));
    LATHE_TRY(const auto places, elements_named(call, *data, *indices));
    return scattered(call, *data, *updates, places, 1);
}

std::size_t run_behind(const Shape& shape, std::size_t axes) {
    return static_cast<std::size_t>(
        element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axes), shape.end())));
}

Outputs gather_nd(const Call& call) {
    LATHE_TRY(const Tensor* const data, call.required(0));
    LATHE_TRY(const Tensor* const indices, call.required(1));
    const std::int64_t batch = call.node.int_or("batch_dims", 0);
    if (batch < 0) return invalid(call, "a negative number of batch axes");
    LATHE_TRY(const auto places, blocks_named(call, *data, *indices, static_cast<std::size_t>(batch)));
    const auto named = static_cast<std::size_t>(batch + indices->shape().back());
    Shape shape(indices->shape().begin(), indices->shape().end() - 1);
    shape.insert(shape.end(), data->shape().begin() + static_cast<std::ptrdiff_t>(named), data->shape().end());
    return gathered(call, *data, places, run_behind(data->shape(), named), std::move(shape));
}

} // namespace

void add_indexed(FunctionTable& table) {
    table.emplace("GatherElements", gather_elements_node);
    table.emplace("ScatterElements", scatter_elements);
    table.emplace("GatherND", gather_nd);
}

} // namespace lathe::evaluation
