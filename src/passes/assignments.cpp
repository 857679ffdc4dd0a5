// x[:, 2:4] = y, as PyTorch's exporter writes it: ScatterND with the index of every element.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// Indices from .. from + size along an axis; all of it, however long, where `whole`.
struct Span {
    std::int64_t from = 0, size = 0;
    bool whole = false;
    bool operator==(const Span&) const = default;
};
using Spans = std::vector<Span>; ///< of the first axes; the others are assigned whole

/// Numbers that count up by one along `axis` of `rank` axes, which they are broadcast to, and are the same along
/// others.
std::optional<Span> counts_along(const Tensor& tensor, std::size_t axis, std::size_t rank) {
    const Shape& shape = tensor.shape();
    if (tensor.type() != DataType::int64 || shape.size() > rank || tensor.count() == 0) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] != 1 && i + rank - shape.size() != axis) return std::nullopt;
    }
    const auto values = tensor.values<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != values[0] + static_cast<std::int64_t>(i)) return std::nullopt;
    }
    return values[0] < 0 ? std::nullopt : std::optional(Span{values[0], static_cast<std::int64_t>(values.size())});
}

struct View {
    const Graph& graph;
    const Uses& uses;
};

/// Range(0, the size of that axis of `data`, 1), as a column of the right rank.
bool is_whole(const View& in, const std::string& value, const std::string& data, std::size_t axis, std::size_t rank) {
    const Node* node = in.uses.producer(value);
    std::size_t behind = 0;
    if (node != nullptr && node->is("Reshape")) {
        const Tensor* to = in.graph.constant(node->input(1));
        if (to == nullptr || node->int_or("allowzero", 0) != 0) return false;
        const auto sizes = to->to_int64s();
        if (sizes.empty() || sizes[0] != -1 ||
            !std::all_of(sizes.begin() + 1, sizes.end(), [](auto n) { return n == 1; }))
            return false;
        behind = sizes.size() - 1;
        node = in.uses.producer(node->input(0));
    }
    return behind + 1 + axis == rank && node != nullptr && node->is("Range") &&
           constant_integer(in.graph, node->input(0)) == 0 && constant_integer(in.graph, node->input(2)) == 1 &&
           is_size_of(in.graph, in.uses, node->input(1), data, axis);
}

std::optional<std::vector<Dimension>> dims_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->dims : std::nullopt;
}

/// Of indices in one constant, [sizes, axes].
std::optional<Spans> constant_spans(const Tensor& indices) {
    const Shape& shape = indices.shape();
    if (indices.type() != DataType::int64 || shape.size() < 2) return std::nullopt;
    const auto axes = static_cast<std::size_t>(shape.back());
    if (axes + 1 != shape.size() || indices.count() == 0) return std::nullopt;
    const auto values = indices.values<std::int64_t>();
    Spans spans;
    for (std::size_t axis = 0; axis < axes; ++axis)
        spans.push_back({values[axis], shape[axis]});
    std::vector<std::int64_t> at(axes, 0);
    for (std::size_t i = 0; i < values.size(); i += axes) {
        for (std::size_t axis = 0; axis < axes; ++axis)
            if (values[i + axis] != spans[axis].from + at[axis] || values[i + axis] < 0) return std::nullopt;
        for (std::size_t axis = axes; axis-- > 0 && ++at[axis] == shape[axis];)
            at[axis] = 0;
    }
    return spans;
}

/// Of indices that are joined from one broadcast tensor an axis.
std::optional<Spans> joined_spans(const View& in, const Node& concat, const std::string& data) {
    const std::size_t axes = concat.inputs.size();
    const std::int64_t axis = concat.int_or("axis", 0);
    if (axis != -1 && axis != static_cast<std::int64_t>(axes)) return std::nullopt;
    Spans spans;
    for (std::size_t i = 0; i < axes; ++i) {
        const Node* column = in.uses.producer(concat.input(i));
        if (column == nullptr || !column->is("Unsqueeze")) return std::nullopt;
        const auto at = constant_integers(in.graph, *column, "axes", 1);
        if (!at || at->size() != 1 || ((*at)[0] != -1 && (*at)[0] != static_cast<std::int64_t>(axes)))
            return std::nullopt;
        std::string source = column->input(0);
        if (const Node* expand = in.uses.producer(source); expand != nullptr && expand->is("Expand"))
            source = expand->input(0);
        if (const Tensor* tensor = in.graph.constant(source)) {
            const auto span = counts_along(*tensor, i, axes);
            if (!span) return std::nullopt;
            spans.push_back(*span);
        } else if (is_whole(in, source, data, i, axes)) {
            spans.push_back({0, 0, true});
        } else {
            return std::nullopt;
        }
    }
    return spans;
}

/// The spans of a ScatterND whose sizes say that each place is written once.
std::optional<Spans> spans_of(const View& in, const Node& scatter) {
    if (!scatter.is("ScatterND") || scatter.string_or("reduction", "none") != "none") return std::nullopt;
    const std::string &data = scatter.input(0), &updates = scatter.input(2);
    const auto dims = dims_of(in.graph, data), given = dims_of(in.graph, updates);
    if (!dims || !given || dims->size() != given->size()) return std::nullopt;
    std::optional<Spans> spans;
    if (const Tensor* constant = in.graph.constant(scatter.input(1))) {
        spans = constant_spans(*constant);
    } else if (const Node* concat = in.uses.producer(scatter.input(1)); concat != nullptr && concat->is("Concat")) {
        spans = joined_spans(in, *concat, data);
    }
    if (!spans || spans->size() > dims->size()) return std::nullopt;
    for (std::size_t axis = 0; axis < spans->size(); ++axis) {
        Span& span = (*spans)[axis];
        const Dimension &whole = (*dims)[axis], &part = (*given)[axis];
        if (span.whole) {
            if (whole.size && part.size && *whole.size != *part.size) return std::nullopt;
            continue;
        }
        if (!whole.size || !part.size || *part.size != span.size || span.from + span.size > *whole.size)
            return std::nullopt;
        if (span.from == 0 && span.size == *whole.size) span = {0, 0, true};
    }
    return spans;
}

/// A part of `value` along an axis, before the site's root.
std::string part_of(const Site& site, const std::string& value, std::int64_t axis, std::int64_t from, std::int64_t to) {
    const auto one = [&](const char* stem, std::int64_t number) {
        return add_constant(site.graph, stem, Tensor::of_int64s("", {1}, std::array{number}));
    };
    Node slice = make_node("Slice", {value, one("from", from), one("to", to), one("axis", axis)});
    slice.outputs = {site.graph.unique_name(value + "_part")};
    ValueInfo info = site.graph.info_or_name(value);
    info.name = slice.outputs[0];
    if (info.dims) (*info.dims)[static_cast<std::size_t>(axis)] = Dimension::of(to - from);
    insert_before(site, slice, std::move(info));
    return slice.outputs[0];
}

/// `data` with its spans from `axis` on replaced: joined from what is before, in and behind each span.
Node replaced(const Site& site, const std::string& data, const std::string& updates, const Spans& spans,
              std::size_t axis) {
    while (axis < spans.size() && spans[axis].whole)
        ++axis;
    if (axis == spans.size()) return make_node("Identity", {updates});
    const auto at = static_cast<std::int64_t>(axis);
    const Span& span = spans[axis];
    const std::int64_t end = span.from + span.size, size = *(*dims_of(site.graph, data))[axis].size;
    const bool last = std::all_of(spans.begin() + at + 1, spans.end(), [](const Span& each) { return each.whole; });
    std::string middle = updates;
    if (!last) {
        const std::string inside = part_of(site, data, at, span.from, end);
        Node inner = replaced(site, inside, updates, spans, axis + 1);
        inner.outputs = {site.graph.unique_name(data + "_replaced")};
        ValueInfo info = site.graph.info_or_name(inside);
        info.name = middle = inner.outputs[0];
        insert_before(site, std::move(inner), std::move(info));
    }
    Node joined = make_node("Concat", {});
    if (span.from > 0) joined.inputs.push_back(part_of(site, data, at, 0, span.from));
    joined.inputs.push_back(middle);
    if (end < size) joined.inputs.push_back(part_of(site, data, at, end, size));
    joined.set("axis", at);
    return joined;
}

/// Whether slices of `data`, each of the one before, are the part that the spans name.
bool is_part(const View& in, std::string value, const std::string& data, const Spans& spans) {
    const auto dims = dims_of(in.graph, data);
    std::vector<const Node*> slices;
    for (; value != data; value = slices.back()->input(0)) {
        slices.push_back(in.uses.producer(value));
        if (slices.back() == nullptr || !slices.back()->is("Slice")) return false;
    }
    Spans part(dims->size(), {0, 0, true});
    for (const Node* slice : slices) {
        const auto from = constant_integers(in.graph, *slice, "starts", 1);
        const auto to = constant_integers(in.graph, *slice, "ends", 2);
        const auto axes = constant_integers(in.graph, *slice, "axes", 3);
        const auto steps = constant_integers(in.graph, *slice, "steps", 4);
        if (!from || !to || !axes || (steps && std::ranges::any_of(*steps, [](auto step) { return step != 1; })))
            return false;
        for (std::size_t i = 0; i < axes->size() && i < from->size() && i < to->size(); ++i) {
            const auto rank = static_cast<std::int64_t>(part.size());
            const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
            if (axis < 0 || axis >= rank) return false;
            Span& span = part[static_cast<std::size_t>(axis)];
            const auto size = (*dims)[static_cast<std::size_t>(axis)].size;
            if (!span.whole || !size || (*from)[i] < 0 || (*to)[i] < 0) return false; // twice along an axis
            const std::int64_t end = std::min((*to)[i], *size);
            if ((*from)[i] != 0 || end != *size) span = {(*from)[i], end - (*from)[i]};
        }
    }
    part.resize(spans.size());
    return part == spans && std::ranges::all_of(spans, [](const Span& each) { return each.whole || each.size > 0; });
}

/// Of two shapes with as many elements: sizes that are equal, but for one that is not known.
bool same_sizes(const Graph& graph, const std::string& a, const std::string& b) {
    const auto x = dims_of(graph, a), y = dims_of(graph, b);
    if (!x || !y || x->size() != y->size()) return false;
    std::size_t unknown = 0;
    for (std::size_t i = 0; i < x->size(); ++i) {
        const auto &p = (*x)[i].size, &q = (*y)[i].size;
        if (!p || !q) ++unknown;
        if (p && q && *p != *q) return false;
    }
    return unknown <= 1;
}

/// x[1:] += y: a sum with y padded, which what adds masks and biases to scores reads as one.
std::optional<Node> sum(const Site& site, const Spans& spans) {
    constexpr std::int64_t sizes_are_inputs = 11; // of Pad
    const std::string &data = site.root.input(0), &updates = site.root.input(2);
    const Node* add = site.uses.producer(updates);
    // The exporter gives what is assigned the sizes of its place, which it mostly has.
    if (add != nullptr && add->is("Reshape") && same_sizes(site.graph, add->input(0), updates))
        add = site.uses.producer(add->input(0));
    if (add == nullptr || !add->is("Add") || site.context.opset < sizes_are_inputs) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
        const std::string& other = add->input(1 - i);
        const auto dims = dims_of(site.graph, data), given = dims_of(site.graph, other);
        if (!given || given->size() != dims->size() || !is_part({site.graph, site.uses}, add->input(i), data, spans))
            continue;
        bool fits = true; // along whole axes it may be broadcast
        for (std::size_t axis = 0; axis < spans.size(); ++axis)
            fits = fits && (spans[axis].whole || (*given)[axis].size == spans[axis].size);
        if (!fits) continue;
        std::vector<std::int64_t> around(2 * dims->size(), 0);
        for (std::size_t axis = 0; axis < spans.size(); ++axis) {
            if (spans[axis].whole) continue;
            around[axis] = spans[axis].from;
            around[axis + dims->size()] = *(*dims)[axis].size - spans[axis].from - spans[axis].size;
        }
        const auto count = static_cast<std::int64_t>(around.size());
        Node pad =
            make_node("Pad", {other, add_constant(site.graph, "around", Tensor::of_int64s("", {count}, around))});
        pad.outputs = {site.graph.unique_name(other + "_padded")};
        ValueInfo info = site.graph.info_or_name(data);
        info.name = pad.outputs[0];
        insert_before(site, pad, std::move(info));
        return make_node("Add", {data, pad.outputs[0]});
    }
    return std::nullopt;
}

bool assign(const Site& site) {
    constexpr std::int64_t bounds_are_inputs = 10; // of Slice
    if (site.context.opset < bounds_are_inputs) return false;
    const auto spans = spans_of({site.graph, site.uses}, site.root);
    if (!spans) return false;
    if (auto added = sum(site, *spans)) {
        become(site.root, std::move(*added), site.root);
        return true;
    }
    Node result = replaced(site, site.root.input(0), site.root.input(2), *spans, 0);
    become(site.root, std::move(result), site.root);
    return true;
}

/// What is assigned twice (x[1:] += y is exported so) need not be the first time.
std::size_t assign_once(Graph& graph) {
    const Uses uses(graph);
    const View in{graph, uses};
    std::size_t changed = 0;
    for (const auto& node : graph.nodes) {
        const Node* before = node->is("ScatterND") ? uses.producer(node->input(0)) : nullptr;
        if (before == nullptr || !before->is("ScatterND")) continue;
        const auto spans = spans_of(in, *node);
        if (!spans || spans != spans_of(in, *before)) continue;
        node->inputs[0] = before->inputs[0];
        ++changed;
    }
    return changed;
}

} // namespace

//  x, y -> ScatterND(indices of x[:, 2:4])   ==>   Concat(x[:, :2], y, x[:, 4:])
Result<bool> join_assignments(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("ScatterND"), assign}};
    const std::size_t once = assign_once(graph);
    context.rewrites += once;
    LATHE_TRY(const bool joined, rewrite(graph, context, rules));
    return once > 0 || joined;
}

} // namespace lathe::passes
