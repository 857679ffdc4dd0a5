#include "backends/cuda/plan/patterns/head_view.hpp"

#include <algorithm>
#include <array>

#include "backends/cuda/plan/index_map.hpp"

namespace lathe::cuda {
namespace {

/// One index of an operand in a value's memory.
struct Part {
    std::int64_t extent = 1, stride = 0;
};
enum : std::size_t { sample, head, row, number };

/// The axes that a part runs along in a value of these dims: one, or with a step of 1 some that lie one behind the
/// other.
struct Axes {
    std::size_t first = 0, last = 0;
};
std::optional<Axes> axes_of(const Part& part, const Shape& dims) {
    const Shape strides = strides_of(dims);
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (dims[axis] > 1 && part.stride >= strides[axis] && part.stride % strides[axis] == 0 &&
            part.stride / strides[axis] * (part.extent - 1) < dims[axis])
            return Axes{axis, axis};
    }
    for (std::size_t last = dims.size(); last-- > 0;) {
        if (part.stride != strides[last]) continue;
        std::int64_t extent = dims[last];
        for (std::size_t first = last; first-- > 0 && extent < part.extent;)
            if ((extent *= dims[first]) == part.extent) return Axes{first, last};
    }
    return std::nullopt;
}

class Walk {
public:
    Walk(const Lowering& lowering, const HeadSizes& sizes, const std::string& value, HeadRole role)
        : lowering_(lowering), sizes_(sizes), role_(role), value_(value) {
        const std::int64_t matrix = sizes.rows * sizes.depth;
        const bool turned = role == HeadRole::keys || role == HeadRole::turned_values;
        const Shape& dims = lowering.dims(value);
        const std::int64_t samples = dims.empty() ? 0 : dims[0];
        heads_ = dims.size() == 4 ? dims[1] : 1;
        fits_ = (samples == sizes.batch || samples == 1) && (heads_ == sizes.heads || heads_ == 1) &&
                element_count(dims) == samples * heads_ * matrix;
        parts_[sample] = {samples, heads_ * matrix};
        parts_[head] = {heads_, matrix};
        parts_[row] = {sizes.rows, turned ? 1 : sizes.depth};
        parts_[number] = {sizes.depth, turned ? sizes.rows : 1};
    }

    bool fits() const { return fits_; }
    bool lies_in_rows() const { return parts_[number].stride == 1 || sizes_.depth == 1; }
    SeenHeads seen() const {
        const auto stride = [&](std::size_t part) { return parts_[part].extent > 1 ? parts_[part].stride : 0; };
        return {value_, {offset_, stride(sample), stride(row), stride(head)}, heads_, factor_};
    }
    /// The same in an image whose channels lie side by side: heads and numbers are channels, rows are pixels.
    std::optional<SeenHeads> seen_in_image() const {
        const Shape& dims = lowering_.dims(value_);
        if (dims.size() < 3 || dims.size() > 5 || dims[1] < 2) return std::nullopt;
        const std::int64_t pixels = element_count(dims) / std::max<std::int64_t>(1, dims[0] * dims[1]);
        const auto fits = [&](std::size_t part, std::int64_t unit) {
            return parts_[part].extent == 1 || (parts_[part].stride > 0 && parts_[part].stride % unit == 0);
        };
        const auto is = [&](std::size_t part, std::int64_t stride) {
            return parts_[part].extent == 1 || parts_[part].stride == stride;
        };
        if (pixels < 2 || !is(number, pixels) || !is(row, 1) || !is(sample, dims[1] * pixels) || !fits(head, pixels))
            return std::nullopt;
        const HeadView view{offset_ / pixels, parts_[sample].extent > 1 ? pixels : 0, parts_[row].extent > 1 ? 1 : 0,
                            parts_[head].extent > 1 ? parts_[head].stride / pixels : 0};
        // All of it is in a sample's image: heads are not samples.
        const std::int64_t last_channel =
            view.offset + (parts_[head].extent - 1) * view.head + parts_[number].extent - 1;
        if (last_channel >= dims[1] || offset_ % pixels + parts_[row].extent > pixels) return std::nullopt;
        return SeenHeads{value_, view, heads_, factor_, true, offset_ % pixels};
    }
    bool is_rows() const {
        const Shape whole{sizes_.batch, sizes_.rows, sizes_.heads, sizes_.depth};
        const HeadView view = seen().view;
        const auto same = [](std::int64_t extent, std::int64_t stride, std::int64_t wanted) {
            return extent == 1 || stride == wanted;
        };
        const std::int64_t width = sizes_.heads * sizes_.depth;
        return lowering_.dims(value_) == whole && view.offset == 0 && heads_ == sizes_.heads && lies_in_rows() &&
               same(sizes_.batch, view.batch, sizes_.rows * width) && same(sizes_.rows, view.row, width) &&
               same(sizes_.heads, view.head, sizes_.depth);
    }
    const std::string& value() const { return value_; }
    double factor() const { return factor_; }

    /// To the input of the node that makes the value.
    bool step(const Node& node) {
        if (node.is("Reshape") || node.is("Squeeze") || node.is("Unsqueeze") || node.is("Flatten") ||
            node.is("Identity")) {
            value_ = node.input(0);
            return true;
        }
        if (const auto scaled = scaled_by(lowering_, node)) {
            const bool scores = role_ == HeadRole::queries || role_ == HeadRole::keys;
            if (!scores || lowering_.dims(scaled->first) != lowering_.dims(value_)) return false;
            factor_ *= scaled->second;
            value_ = scaled->first;
            return true;
        }
        if (node.is("Transpose")) return turn(node);
        if (node.is("Split") || node.is("Slice")) return cut(node);
        if (node.is("Gather")) return pick(node);
        return node.is("Expand") && repeat(node);
    }

private:
    /// Moves to an input whose axis `to(axis)` is the value's `axis`, beginning there at `begin(axis)`.
    template <class To, class Begin>
    bool move(const std::string& input, To to, Begin begin) {
        const Shape from = lowering_.dims(value_);
        const Shape strides = strides_of(from);
        const Shape target = strides_of(lowering_.dims(input));
        auto parts = parts_;
        for (Part& part : parts) {
            if (part.extent == 1) continue;
            const auto axes = axes_of(part, from);
            if (!axes) return false;
            for (std::size_t axis = axes->last; axis > axes->first; --axis) // still one behind the other
                if (target[to(axis - 1)] != target[to(axis)] * from[axis]) return false;
            part.stride = part.stride / strides[axes->last] * target[to(axes->last)];
        }
        std::int64_t rest = offset_;
        std::int64_t offset = 0;
        for (std::size_t axis = 0; axis < from.size(); ++axis) {
            offset += (rest / strides[axis] + begin(axis)) * target[to(axis)];
            rest %= strides[axis];
        }
        parts_ = parts;
        offset_ = offset;
        value_ = input;
        return true;
    }

    bool turn(const Node& node) {
        const auto order = node.ints_or("perm", {});
        if (order.size() != lowering_.dims(value_).size()) return false;
        return move(
            node.input(0), [&](std::size_t axis) { return static_cast<std::size_t>(order[axis]); },
            [](std::size_t) { return std::int64_t{0}; });
    }

    /// Split, and Slice with steps of 1.
    bool cut(const Node& node) {
        const Shape dims = lowering_.dims(node.input(0));
        const auto rank = static_cast<std::int64_t>(dims.size());
        Shape begin(dims.size(), 0);
        if (node.is("Split")) {
            const std::int64_t given = node.int_or("axis", 0);
            const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
            for (const std::string& output : node.outputs) {
                if (output == value_) break;
                begin[axis] += lowering_.dims(output)[axis];
            }
        } else {
            const auto list = [&](std::size_t input) -> std::optional<Shape> {
                const auto fixed = lowering_.constant(node.input(input));
                if (!fixed || fixed->tensor == nullptr) return std::nullopt;
                return fixed->tensor->to_int64s();
            };
            const auto starts = list(1);
            const auto axes = list(3);
            const auto steps = list(4);
            if (!starts || (!axes && !node.input(3).empty()) || (!steps && !node.input(4).empty())) return false;
            for (std::size_t i = 0; i < starts->size(); ++i) {
                const std::int64_t given = axes ? (*axes)[i] : static_cast<std::int64_t>(i);
                const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
                if (axis >= dims.size() || (steps && (*steps)[i] != 1)) return false;
                const std::int64_t start = (*starts)[i] < 0 ? (*starts)[i] + dims[axis] : (*starts)[i];
                begin[axis] = std::clamp<std::int64_t>(start, 0, dims[axis]);
            }
        }
        return move(
            node.input(0), [](std::size_t axis) { return axis; }, [&](std::size_t axis) { return begin[axis]; });
    }

    /// Gather of one index.
    bool pick(const Node& node) {
        const auto index = lowering_.constant(node.input(1));
        if (!index || index->tensor == nullptr || index->count() != 1) return false;
        const Shape dims = lowering_.dims(node.input(0));
        const std::int64_t given = node.int_or("axis", 0);
        const auto axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(dims.size()) : given);
        const std::int64_t at = index->tensor->to_int64s()[0];
        const std::int64_t begin = at < 0 ? at + dims[axis] : at;
        const bool keeps = lowering_.dims(value_).size() == dims.size();
        if (!keeps && lowering_.dims(value_).size() + 1 != dims.size()) return false;
        const std::int64_t extra = begin * strides_of(dims)[axis];
        const bool moved = move(
            node.input(0), [&](std::size_t own) { return keeps || own < axis ? own : own + 1; },
            [](std::size_t) { return std::int64_t{0}; });
        if (moved) offset_ += extra;
        return moved;
    }

    //  [B, G, 1, S, D] -> Expand [B, G, H/G, S, D]: heads that read the same keys
    bool repeat(const Node& node) {
        const Shape from = lowering_.dims(value_);
        const Shape to = lowering_.dims(node.input(0));
        if (from.size() != to.size()) return false;
        std::size_t repeated = from.size();
        for (std::size_t i = 0; i < from.size(); ++i) {
            if (from[i] == to[i]) continue;
            if (repeated != from.size() || to[i] != 1) return false;
            repeated = i;
        }
        const Shape strides = strides_of(from);
        const bool heads = repeated > 0 && repeated < from.size() && offset_ == 0 && heads_ == sizes_.heads &&
                           parts_[head].stride == strides[repeated] &&
                           from[repeated - 1] * from[repeated] == parts_[head].extent;
        if (!heads) return false;
        parts_[head] = {from[repeated - 1], strides[repeated - 1]};
        heads_ = from[repeated - 1];
        return move(
            node.input(0), [](std::size_t axis) { return axis; }, [](std::size_t) { return std::int64_t{0}; });
    }

    const Lowering& lowering_;
    HeadSizes sizes_;
    HeadRole role_;
    std::string value_;
    std::array<Part, 4> parts_;
    std::int64_t offset_ = 0;
    std::int64_t heads_ = 0;
    bool fits_ = false;
    double factor_ = 1;
};

} // namespace

std::optional<std::pair<std::string, double>> scaled_by(const Lowering& lowering, const Node& node) {
    if (!node.is("Mul") && !node.is("Div")) return std::nullopt;
    if (const auto right = lowering.scalar(node.input(1)); right && *right != 0) {
        const auto factor = static_cast<double>(*right);
        return std::pair{node.input(0), node.is("Mul") ? factor : 1 / factor};
    }
    if (const auto left = lowering.scalar(node.input(0)); left && node.is("Mul"))
        return std::pair{node.input(1), static_cast<double>(*left)};
    return std::nullopt;
}

namespace {

bool is_nhwc(Lowering& lowering, const std::string& value) {
    return std::ranges::any_of(lowering.forms(value),
                               [&](ValueId id) { return lowering.value(id).layout == Layout::nhwc; });
}

} // namespace

std::optional<SeenHeads> heads_place(Lowering& lowering, const HeadOperand& operand, std::int64_t heads,
                                     ElementType type, std::int64_t aligned) {
    for (auto place = operand.places.rbegin(); place != operand.places.rend(); ++place) {
        if (place->heads != heads || !lowering.ready(place->value)) continue;
        if (lowering.stored_type(lowering.type_of(place->value)) != type) continue;
        if (place->image && !is_nhwc(lowering, place->value)) continue;
        const HeadView& view = place->view;
        const std::int64_t steps = view.offset | view.head | (place->image ? 0 : view.batch | view.row);
        if (steps % aligned == 0 || place + 1 == operand.places.rend()) return *place;
    }
    // What must be turned first: the nearest, which is the smallest.
    const auto image = std::ranges::find_if(operand.places, [&](const SeenHeads& place) {
        return place.image && place.heads == heads && lowering.ready(place.value) &&
               lowering.stored_type(lowering.type_of(place.value)) == type;
    });
    return image == operand.places.end() ? std::nullopt : std::optional(*image);
}

HeadView view_of(const SeenHeads& place, const Value& value) {
    if (!place.image) return place.view;
    const HeadView& view = place.view;
    return {view.offset + place.pixel * value.channel_stride, view.batch * value.channel_stride,
            view.row * value.channel_stride, view.head};
}

HeadOperand see_heads(const Lowering& lowering, const std::string& value, const Node& reader, const HeadSizes& sizes,
                      HeadRole role, bool images) {
    HeadOperand found;
    Walk walk(lowering, sizes, value, role);
    if (!walk.fits()) return found;
    const Node* expected = &reader;
    bool own = true; // nothing else reads what was walked through
    std::vector<Node*> nodes;
    for (int steps = 0; steps < 16; ++steps) {
        if (walk.lies_in_rows()) found.places.push_back(walk.seen());
        if (images && !walk.lies_in_rows() && !lowering.constant(walk.value())) {
            if (auto place = walk.seen_in_image()) found.places.push_back(std::move(*place));
        }
        own = own && lowering.only_reader(walk.value()) == expected;
        if (own && found.rows.empty() && walk.is_rows() && steps > 0) {
            found.rows = walk.value();
            found.rows_factor = walk.factor();
            found.nodes = nodes;
        }
        Node* producer = lowering.uses().producer(walk.value());
        if (producer == nullptr || lowering.constant(walk.value()) || producer->outputs.empty()) break;
        if (!walk.step(*producer)) break;
        nodes.push_back(producer);
        expected = producer;
    }
    return found;
}

} // namespace lathe::cuda
