// What stands beside a tensor: Pad in its modes, and Tile, which repeats.
#include <algorithm>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

std::optional<Padding> padding_named(const std::string& name) {
    if (name == "constant") return Padding::constant;
    if (name == "reflect") return Padding::reflect;
    if (name == "edge") return Padding::edge;
    if (name == "wrap") return Padding::wrap;
    return std::nullopt;
}

/// Widths by axis, and what stands there.
struct Borders {
    Padding how = Padding::constant;
    std::vector<std::int64_t> axes, before, after;
    ValueId beside = none;
};

/// One operation an axis.
Result<void> put_borders(Lowering& lowering, Node& node, Borders borders) {
    const Shape x = lowering.dims(node.input(0));
    const auto rank = static_cast<std::int64_t>(x.size());
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.output(0))));
    if (element_count(x) == 0) return Lowering::cannot(node, "of nothing");
    if (x.empty() || x.size() > 8) return Lowering::cannot(node, "no dimension, or more than 8");
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < borders.axes.size(); ++i) {
        if (borders.axes[i] < 0) borders.axes[i] += rank;
        if (borders.axes[i] < 0 || borders.axes[i] >= rank) return Lowering::cannot(node, "its axes");
        if (borders.before[i] != 0 || borders.after[i] != 0) used.push_back(i);
    }
    if (used.empty()) used.push_back(borders.axes.size() - 1);
    if (!lowering.ready(node.input(0))) return Lowering::cannot(node, "an input is not made");
    // Images stay as they lie; channels that only fill up must stay zero.
    Layout layout = Layout::linear;
    const bool of_pixels = x.size() >= 3 && x.size() <= 5 && borders.beside == none && is_real(*type) &&
                           std::all_of(used.begin(), used.end(), [&](std::size_t i) { return borders.axes[i] > 1; });
    for (const ValueId id : lowering.forms(node.input(0)))
        if (of_pixels && lowering.value(id).layout == Layout::nhwc) layout = Layout::nhwc;
    LATHE_TRY(ValueId last, lowering.want(node.input(0), *type, layout));
    Shape dims = x;
    for (const std::size_t i : used) {
        Indexed detail;
        detail.kind = IndexedKind::pad;
        detail.axis = borders.axes[i];
        detail.number = borders.before[i];
        detail.mode = static_cast<std::int32_t>(borders.how);
        auto& size = dims[static_cast<std::size_t>(detail.axis)];
        size += borders.before[i] + borders.after[i];
        if (size < 1) return Lowering::cannot(node, "of which nothing is left");
        const bool end = i == used.back();
        const ValueId made = lowering.make(end ? node.output(0) : node.output(0) + "/axis", *type, dims, layout);
        std::vector<ValueId> operands{last};
        if (borders.beside != none) operands.push_back(borders.beside);
        lowering.add(node, {}, detail, std::move(operands), {made}, *type);
        last = made;
    }
    return {};
}

std::optional<std::vector<std::int64_t>> constant_integers(const Lowering& lowering, const std::string& value) {
    const auto found = lowering.constant(value);
    if (!found || found->tensor == nullptr) return std::nullopt;
    return found->tensor->to_int64s();
}

Result<void> pad(Lowering& lowering, Node& node) {
    const auto how = padding_named(node.string_or("mode", "constant"));
    if (!how) return Lowering::cannot(node, "its mode");
    Borders borders;
    borders.how = *how;
    const auto rank = static_cast<std::int64_t>(lowering.dims(node.input(0)).size());
    std::vector<std::int64_t> pads = node.ints_or("pads", node.ints_or("paddings", {}));
    for (std::int64_t axis = 0; axis < rank; ++axis)
        borders.axes.push_back(axis);
    if (lowering.opset() >= 11) {
        const auto given = constant_integers(lowering, node.input(1));
        if (!given) return Lowering::cannot(node, "its widths are computed");
        pads = *given;
        if (!node.input(3).empty()) {
            const auto some = constant_integers(lowering, node.input(3));
            if (!some) return Lowering::cannot(node, "its axes are computed");
            borders.axes = *some;
        }
    }
    if (pads.size() != 2 * borders.axes.size()) return Lowering::cannot(node, "as many widths as it has");
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(borders.axes.size());
    borders.before.assign(pads.begin(), middle);
    borders.after.assign(middle, pads.end());
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    const float before_11 = node.float_or("value", 0);
    if (*how == Padding::constant && lowering.opset() >= 11 && !node.input(2).empty()) {
        const auto zero = lowering.scalar(node.input(2));
        if (!zero || *zero != 0) {
            if (!lowering.ready(node.input(2))) return Lowering::cannot(node, "an input is not made");
            LATHE_TRY(borders.beside, lowering.want_linear(node.input(2)));
            if (lowering.value(borders.beside).type != type) return Lowering::cannot(node, "a number of another type");
        }
    } else if (*how == Padding::constant && before_11 != 0) {
        if (type != ElementType::f32) return Lowering::cannot(node, "its number, in this precision");
        LATHE_TRY(borders.beside, lowering.vector_value("padding " + std::to_string(before_11), {1}, [&] {
            return Result<std::vector<float>>(std::vector<float>{before_11});
        }));
    }
    return put_borders(lowering, node, std::move(borders));
}

/// What is repeated goes on from its other end.
Result<void> tile(Lowering& lowering, Node& node) {
    const auto repeats = constant_integers(lowering, node.input(1));
    const Shape x = lowering.dims(node.input(0));
    if (!repeats || repeats->size() != x.size()) return Lowering::cannot(node, "its repeats are computed");
    Borders borders;
    borders.how = Padding::wrap;
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
        borders.axes.push_back(static_cast<std::int64_t>(axis));
        borders.before.push_back(0);
        borders.after.push_back(((*repeats)[axis] - 1) * x[axis]);
    }
    return put_borders(lowering, node, std::move(borders));
}

/// What spelled_cuts.cpp writes numbers that go round an axis as: the first `shift` come last.
Result<void> roll(Lowering& lowering, Node& node) {
    const std::int64_t shift = node.int_or("shift", 0);
    return put_borders(lowering, node, {Padding::wrap, {node.int_or("axis", 0)}, {-shift}, {shift}});
}

} // namespace

void add_borders(LoweringTable& table) {
    table.emplace("Pad", pad);
    table.emplace("Tile", tile);
    table.emplace("Roll", roll);
}

} // namespace lathe::cuda
