#include "backends/cuda/generate/space.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace lathe::cuda::generated {

std::vector<std::size_t> View::order() const {
    std::vector<std::size_t> all;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (!nhwc() || d != 1) all.push_back(d);
    if (nhwc()) all.push_back(1);
    return all;
}

View view_of(const Value& value) {
    View view;
    view.dims = value.dims;
    if (value.layout == Layout::nhwc && view.dims.size() == 3) view.dims.insert(view.dims.begin() + 2, 1);
    if (value.layout == Layout::nhwc) {
        view.channel_stride = value.stored_channels();
        view.pitch = value.channel_stride;
    }
    view.strides.resize(view.dims.size());
    std::int64_t step = 1;
    const auto order = view.order();
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
        view.strides[*d] = step;
        step *= view.nhwc() && *d == 1 ? view.pitch : view.dims[*d];
    }
    return view;
}

void insert_height(View& view) {
    view.dims.insert(view.dims.begin() + 2, 1);
    view.strides.insert(view.strides.begin() + 2, 0);
}

Operand operand_of(const Plan& plan, ValueId id) {
    const Value& value = plan.values[id];
    Operand operand;
    operand.argument.value = id;
    operand.type = value.type;
    operand.scale = value.type == ElementType::s8 ? value.scale : 1.0F;
    return operand;
}

std::int64_t Space::total() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

bool Space::dense(const Operand& output) const {
    std::int64_t step = 1;
    for (std::size_t d = sizes.size(); d-- > 0; step *= sizes[d])
        if (sizes[d] != 1 && output.strides[d] != step) return false;
    return true;
}

bool Space::narrow() const {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (total() >= most / 2) return false;
    const auto fits = [&](const Operand& operand) {
        std::int64_t furthest = std::abs(operand.offset);
        for (std::size_t d = 0; d < sizes.size(); ++d) {
            if (operand.strides[d] < 0) return false;
            furthest += sizes[d] * operand.strides[d];
        }
        return furthest < most;
    };
    return std::all_of(inputs.begin(), inputs.end(), fits) && std::all_of(outputs.begin(), outputs.end(), fits);
}

void Space::collapse() {
    std::vector<Operand*> operands;
    for (Operand& each : inputs)
        operands.push_back(&each);
    for (Operand& each : outputs)
        operands.push_back(&each);
    const bool keep_last = padded();
    const auto drop = [&](std::size_t d) {
        sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
        for (Operand* each : operands)
            each->strides.erase(each->strides.begin() + static_cast<std::ptrdiff_t>(d));
    };
    for (std::size_t d = sizes.size(); d-- > 0;)
        if (sizes[d] == 1 && sizes.size() > 1 && !(keep_last && d + 1 == sizes.size())) drop(d);
    for (std::size_t d = sizes.size(); d-- > 1;) {
        if (keep_last && d + 1 == sizes.size()) continue;
        const bool one = std::all_of(operands.begin(), operands.end(), [&](const Operand* each) {
            return each->strides[d - 1] == each->strides[d] * sizes[d];
        });
        if (!one) continue;
        sizes[d] *= sizes[d - 1];
        drop(d - 1);
    }
    if (!keep_last) valid = sizes.back();
}

Space space_of(const Plan& plan, const std::vector<ValueId>& outputs, bool whole) {
    Space space;
    const View first = view_of(plan.values[outputs.front()]);
    const auto order = first.order();
    for (const std::size_t d : order)
        space.sizes.push_back(first.nhwc() && d == 1 ? first.channel_stride : first.dims[d]);
    if (space.sizes.empty()) space.sizes.push_back(1);
    space.valid = first.nhwc() && !whole ? first.dims[1] : space.sizes.back();
    for (const ValueId id : outputs) {
        Operand operand = operand_of(plan, id);
        for (const std::size_t d : order)
            operand.strides.push_back(first.strides[d]);
        if (order.empty()) operand.strides.push_back(1);
        space.outputs.push_back(std::move(operand));
    }
    return space;
}

void add_input(Space& space, const Plan& plan, ValueId id, const View& output, const std::vector<std::int64_t>& strides,
               std::int64_t offset) {
    Operand operand = operand_of(plan, id);
    operand.offset = offset;
    for (const std::size_t d : output.order())
        operand.strides.push_back(strides[d]);
    if (operand.strides.empty()) operand.strides.push_back(0);
    // Beside an image's channels lies its own padding.
    const Value& value = plan.values[id];
    if (output.nhwc() && value.layout == Layout::nhwc && strides[1] == 1 && offset == 0)
        operand.room = value.stored_channels();
    space.inputs.push_back(std::move(operand));
}

std::int64_t common_factor(std::int64_t a, std::int64_t b) { return std::gcd(a, b); }

std::int64_t common_power(std::int64_t a, std::int64_t b) {
    const std::int64_t both = std::gcd(a, b);
    return both == 0 ? std::int64_t{1} << 30 : both & -both;
}

} // namespace lathe::cuda::generated
