#include "backends/cuda/plan/index_map.hpp"

#include <algorithm>
#include <numeric>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {

Shape strides_of(const Shape& dims) {
    Shape strides(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;)
        strides[i - 1] = strides[i] * dims[i];
    return strides;
}

namespace {

/// Digits cut where an axis of these strides begins; false where they are no multiple of each other.
bool cut_at(std::vector<Digit>& digits, const Shape& strides) {
    std::vector<Digit> parts;
    for (Digit digit : digits) {
        for (const std::int64_t border : strides) { // from the largest on
            if (border <= digit.stride || border >= digit.stride * digit.extent) continue;
            const std::int64_t low = border / digit.stride;
            if (border % digit.stride != 0 || digit.extent % low != 0) return false;
            parts.push_back({digit.extent / low, border});
            digit.extent = low;
        }
        parts.push_back(digit);
    }
    digits = std::move(parts);
    return true;
}

/// The axis that a digit, cut at its borders, belongs to.
std::size_t axis_of(const Digit& digit, const Shape& dims, const Shape& strides) {
    std::size_t axis = 0;
    while (dims[axis] == 1 || digit.stride < strides[axis])
        ++axis;
    return axis;
}

/// From the result of a Transpose to what it reads.
bool step_back(IndexMap& map, const Shape& result, const Shape& read, const std::vector<std::int64_t>& order) {
    if (order.size() != result.size() || read.size() != result.size()) return false;
    const Shape from = strides_of(result), to = strides_of(read);
    for (std::vector<Digit>& digits : map.axes) {
        if (!cut_at(digits, from)) return false;
        for (Digit& digit : digits) {
            const std::size_t axis = axis_of(digit, result, from);
            digit.stride = digit.stride / from[axis] * to[static_cast<std::size_t>(order[axis])];
        }
    }
    return true;
}

/// [N, C, ...] to [N, ..., C], or back.
bool turns_channels(const std::vector<std::int64_t>& order) {
    const auto last = static_cast<std::int64_t>(order.size()) - 1;
    if (last < 2 || order[0] != 0) return false;
    bool to_end = order.back() == 1, to_front = order[1] == last;
    for (std::size_t i = 1; i < order.size(); ++i) {
        const auto axis = static_cast<std::int64_t>(i);
        to_end = to_end && (axis == last || order[i] == axis + 1);
        to_front = to_front && (axis == 1 || order[i] == axis - 1);
    }
    return to_end || to_front;
}

/// Whether a Transpose changes the order of what it reads, of these sizes.
bool moves(const std::vector<std::int64_t>& order, const Shape& dims) {
    std::vector<std::int64_t> wide;
    for (const std::int64_t axis : order)
        if (dims[static_cast<std::size_t>(axis)] > 1) wide.push_back(axis);
    return !std::is_sorted(wide.begin(), wide.end());
}

void join_neighbours(std::vector<Digit>& digits) {
    std::vector<Digit> joined;
    for (const Digit& digit : digits) {
        if (!joined.empty() && joined.back().stride == digit.stride * digit.extent)
            joined.back() = {joined.back().extent * digit.extent, digit.stride};
        else
            joined.push_back(digit);
    }
    digits = std::move(joined);
}

} // namespace

std::size_t IndexMap::pieces() const {
    std::vector<Digit> all;
    for (const std::vector<Digit>& digits : axes)
        all.insert(all.end(), digits.begin(), digits.end());
    join_neighbours(all);
    return all.size();
}

bool only_moves(const Node& node) {
    return node.is("Reshape") || node.is("Transpose") || node.is("Squeeze") || node.is("Unsqueeze") ||
           node.is("Flatten") || node.is("Identity");
}

std::optional<IndexMap> index_map_of(const Graph& graph, const Uses& uses, const std::string& value, Shape dims) {
    IndexMap map;
    map.dims = std::move(dims);
    map.source = value;
    map.source_dims = dims_of(graph, value);
    if (map.dims.empty() || element_count(map.source_dims) != element_count(map.dims) ||
        std::any_of(map.dims.begin(), map.dims.end(), [](std::int64_t n) { return n <= 0; }))
        return std::nullopt;
    const Shape strides = strides_of(map.dims);
    for (std::size_t axis = 0; axis < map.dims.size(); ++axis) {
        map.axes.emplace_back();
        if (map.dims[axis] > 1) map.axes.back().push_back({map.dims[axis], strides[axis]});
    }
    for (int steps = 0; steps < 32; ++steps) {
        const Node* node = uses.producer(map.source);
        if (node == nullptr || !only_moves(*node)) break;
        if (steps > 0 && uses.use_count(map.source) != 1) break;
        const Shape read = dims_of(graph, node->input(0));
        if (read.empty() || element_count(read) != element_count(map.source_dims)) break;
        if (node->is("Transpose")) {
            IndexMap before = map;
            const auto order = node->ints_or("perm", {});
            if (!step_back(before, map.source_dims, read, order)) break;
            map = std::move(before);
            if (moves(order, read)) ++map.transposes;
            map.turns_image = map.turns_image || turns_channels(order);
        }
        map.source = node->input(0);
        map.source_dims = read;
    }
    for (std::vector<Digit>& digits : map.axes)
        join_neighbours(digits);
    return map;
}

std::optional<std::vector<Digit>> digits_by_source(const IndexMap& map, std::size_t axis) {
    std::vector<Digit> digits = map.axes[axis];
    if (!cut_at(digits, strides_of(map.source_dims))) return std::nullopt;
    return digits;
}

std::optional<IndexMap> transposed(IndexMap map, const std::vector<std::int64_t>& order) {
    if (order.size() != map.axes.size()) return std::nullopt;
    IndexMap result = map;
    for (std::size_t axis = 0; axis < order.size(); ++axis) {
        const auto from = static_cast<std::size_t>(order[axis]);
        if (from >= map.axes.size()) return std::nullopt;
        result.axes[axis] = map.axes[from];
        result.dims[axis] = map.dims[from];
    }
    if (moves(order, map.dims)) ++result.transposes;
    return result;
}

bool OneTranspose::moves() const { return cuda::moves(order, split); }

OneTranspose one_transpose(const IndexMap& map) {
    std::vector<Digit> digits; // in the result's order, none over two axes of the source where that can be
    const Shape strides = strides_of(map.source_dims);
    for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
        const std::vector<Digit> parts = digits_by_source(map, axis).value_or(map.axes[axis]);
        digits.insert(digits.end(), parts.begin(), parts.end());
    }
    std::vector<std::size_t> places(digits.size()); // in the source's order
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::sort(places.begin(), places.end(),
              [&](std::size_t a, std::size_t b) { return digits[a].stride > digits[b].stride; });
    // The source's axes of size 1 stay before the axes that follow them.
    OneTranspose made;
    std::vector<std::int64_t> axes(digits.size()), ones;
    std::size_t axis = 0;
    const auto take_ones = [&](std::int64_t above) {
        for (; axis < map.source_dims.size() && strides[axis] >= above; ++axis) {
            if (map.source_dims[axis] != 1) continue;
            ones.push_back(static_cast<std::int64_t>(made.split.size()));
            made.split.push_back(1);
        }
    };
    for (const std::size_t place : places) {
        take_ones(digits[place].stride * digits[place].extent);
        axes[place] = static_cast<std::int64_t>(made.split.size());
        made.split.push_back(digits[place].extent);
    }
    take_ones(1);
    Shape wide;
    for (const std::int64_t size : map.dims)
        if (size > 1) wide.push_back(size);
    const bool plain = ones.size() == map.dims.size() - wide.size() &&
                       std::equal(digits.begin(), digits.end(), wide.begin(), wide.end(),
                                  [](const Digit& digit, std::int64_t size) { return digit.extent == size; });
    if (plain) {
        std::size_t next = 0, one = 0;
        for (const std::int64_t size : map.dims)
            made.order.push_back(size == 1 ? ones[one++] : axes[next++]);
    } else {
        made.order = ones;
        made.order.insert(made.order.end(), axes.begin(), axes.end());
    }
    for (const std::int64_t from : made.order)
        made.turned.push_back(made.split[static_cast<std::size_t>(from)]);
    return made;
}

} // namespace lathe::cuda
