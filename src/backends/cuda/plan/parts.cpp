#include "backends/cuda/plan/parts.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace lathe::cuda {
namespace {

/// What kernels load at once, and where tensor maps may begin.
constexpr std::int64_t piece_bytes = 16;

/// Kernels for all of these read images whose pixels lie further apart than their channels need.
bool reads_parts(const FusedOp& op) {
    if (const auto* conv = std::get_if<Conv>(&op.detail)) return !conv->reads_nchw && !conv->pooled;
    if (const auto* concat = std::get_if<Concat>(&op.detail)) return concat->axis == 1 && !concat->interleaved;
    return std::holds_alternative<Depthwise>(op.detail) || std::holds_alternative<Pointwise>(op.detail) ||
           std::holds_alternative<Slice>(op.detail) || std::holds_alternative<Reformat>(op.detail) ||
           std::holds_alternative<Pool>(op.detail) || std::holds_alternative<GlobalPool>(op.detail) ||
           std::holds_alternative<Resize>(op.detail) || std::holds_alternative<Transpose>(op.detail);
}

/// The same of writing.
bool writes_parts(const FusedOp& op) {
    if (op.outputs.size() != 1) return false;
    if (const auto* conv = std::get_if<Conv>(&op.detail)) return !conv->reads_nchw && !conv->pooled;
    return std::holds_alternative<Depthwise>(op.detail) || std::holds_alternative<Pointwise>(op.detail) ||
           std::holds_alternative<Pool>(op.detail) || std::holds_alternative<Resize>(op.detail) ||
           std::holds_alternative<Reformat>(op.detail);
}

class Placer {
public:
    explicit Placer(Plan& plan) : plan_(plan), gone_(plan.ops.size(), false) { count(); }

    void run() {
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (std::holds_alternative<Slice>(plan_.ops[i].detail)) cut(i);
        // The widest first: of concatenations that grow, the others are parts of the last.
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (std::holds_alternative<Concat>(plan_.ops[i].detail)) order.push_back(i);
        std::ranges::stable_sort(order, std::greater<>(),
                                 [&](std::size_t i) { return value(plan_.ops[i].outputs[0]).dims[1]; });
        for (const std::size_t i : order)
            if (!lies_joined(i)) join(i);
        std::vector<FusedOp> left;
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (!gone_[i]) left.push_back(std::move(plan_.ops[i]));
        plan_.ops = std::move(left);
    }

private:
    Value& value(ValueId id) { return plan_.values[id]; }
    const Value& value(ValueId id) const { return plan_.values[id]; }

    void count() {
        readers_.resize(plan_.values.size());
        aliases_.resize(plan_.values.size());
        makers_.assign(plan_.values.size(), none);
        for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
            for (const ValueId id : plan_.ops[i].inputs)
                readers_[id].push_back(i);
            for (const ValueId id : plan_.ops[i].outputs)
                makers_[id] = i;
        }
        for (ValueId id = 0; id < plan_.values.size(); ++id)
            if (value(id).alias_of != none) aliases_[value(id).alias_of].push_back(id);
    }

    /// An image of whole pieces that is nobody's input or output but ours.
    bool fits(const Value& image) const {
        return image.role == Role::activation && image.layout == Layout::nhwc && image.dims.size() == 4 &&
               image.stored_channels() == image.dims[1] && image.zero_point == 0 &&
               image.dims[1] * static_cast<std::int64_t>(bytes_of(image.type)) % piece_bytes == 0;
    }

    bool is_output(ValueId id) const { return std::ranges::find(plan_.outputs, id) != plan_.outputs.end(); }

    /// Whether all that read the value can read it as a part: no alias sees its bytes, no output is it.
    bool read_as_part(ValueId id) const {
        const bool by_ops =
            std::ranges::all_of(readers_[id], [&](std::uint32_t i) { return gone_[i] || reads_parts(plan_.ops[i]); });
        const bool by_parts = std::ranges::all_of(aliases_[id], [&](ValueId alias) { return value(alias).part; });
        return by_ops && by_parts && !is_output(id);
    }

    void make_part(ValueId id, ValueId whole, std::int64_t from) {
        Value& part = value(id);
        part.alias_of = whole;
        part.alias_from = from;
        part.part = true;
        part.channel_stride = value(whole).channel_stride;
        aliases_[whole].push_back(id);
    }

    /// A slice of channels becomes a part of what it is cut out of.
    void cut(std::size_t i) {
        const FusedOp& op = plan_.ops[i];
        const auto& slice = std::get<Slice>(op.detail);
        const ValueId from = op.inputs[0], to = op.outputs[0];
        const Value &x = value(from), &y = value(to);
        if (!fits(x) || !fits(y) || x.type != y.type || x.scale != y.scale || slice.starts.size() != 4) return;
        for (std::size_t axis = 0; axis < 4; ++axis) {
            const std::int64_t step = axis < slice.steps.size() ? slice.steps[axis] : 1;
            if (axis != 1 && (y.dims[axis] != x.dims[axis] || slice.starts[axis] != 0)) return;
            if (step != 1) return;
        }
        const std::int64_t start = slice.starts[1];
        if (start * static_cast<std::int64_t>(bytes_of(x.type)) % piece_bytes != 0) return;
        if ((x.alias_of != none && !x.part) || !aliases_[to].empty() || !read_as_part(to)) return;
        gone_[i] = true;
        if (x.part)
            make_part(to, x.alias_of, x.alias_from + start);
        else
            make_part(to, from, start);
    }

    /// A concatenation that copies images as they are.
    bool plain(std::size_t i) const {
        const FusedOp& op = plan_.ops[i];
        const auto& concat = std::get<Concat>(op.detail);
        const Value& y = value(op.outputs[0]);
        if (concat.axis != 1 || concat.interleaved || !concat.program.code.empty() || op.inputs.size() < 2)
            return false;
        return fits(y) && y.alias_of == none && std::ranges::all_of(op.inputs, [&](ValueId id) {
                   const Value& x = value(id);
                   return fits(x) && x.type == y.type && x.scale == y.scale;
               });
    }

    /// Inputs that are neighbours in an image already: the result is that part of it.
    bool lies_joined(std::size_t i) {
        const FusedOp& op = plan_.ops[i];
        const ValueId to = op.outputs[0];
        if (!plain(i) || !aliases_[to].empty() || !read_as_part(to)) return false;
        const ValueId whole = value(op.inputs[0]).alias_of;
        if (!value(op.inputs[0]).part) return false;
        std::int64_t at = value(op.inputs[0]).alias_from;
        for (const ValueId id : op.inputs) {
            const Value& x = value(id);
            if (!x.part || x.alias_of != whole || x.alias_from != at) return false;
            at += x.dims[1];
        }
        gone_[i] = true;
        make_part(to, whole, value(op.inputs[0]).alias_from);
        return true;
    }

    /// What takes the place of an input, or of some beside each other that are all parts of one image: that image.
    struct Piece {
        ValueId image = none;
        std::int64_t begin = 0;
    };
    std::optional<std::vector<Piece>> pieces(const FusedOp& op) const {
        std::vector<Piece> found;
        std::int64_t begin = 0;
        for (std::size_t k = 0; k < op.inputs.size();) {
            const ValueId first = op.inputs[k];
            if (!value(first).part) {
                found.push_back({first, begin});
                begin += value(first).dims[1];
                ++k;
                continue;
            }
            const ValueId whole = value(first).alias_of;
            std::int64_t at = 0;
            for (; k < op.inputs.size() && at < value(whole).dims[1]; ++k) {
                const Value& x = value(op.inputs[k]);
                if (!x.part || x.alias_of != whole || x.alias_from != at) return std::nullopt;
                at += x.dims[1];
            }
            if (at != value(whole).dims[1]) return std::nullopt;
            found.push_back({whole, begin});
            begin += at;
        }
        return found;
    }

    /// Whether the image can be written into another one, of which it is then a part.
    bool goes_into(ValueId image, std::size_t concat) const {
        const Value& x = value(image);
        if (!fits(x) || x.alias_of != none || makers_[image] == none || gone_[makers_[image]]) return false;
        return makers_[image] < concat && writes_parts(plan_.ops[makers_[image]]) && read_as_part(image);
    }

    void join(std::size_t i) {
        if (!plain(i)) return;
        const FusedOp& op = plan_.ops[i];
        const ValueId to = op.outputs[0];
        const auto found = pieces(op);
        if (!found) return;
        // One of them may be copied to its place, if that is not most of the work.
        std::optional<std::size_t> copied;
        for (std::size_t k = 0; k < found->size(); ++k) {
            const ValueId image = (*found)[k].image;
            const auto same = [&](const Piece& other) { return other.image == image; };
            if (std::ranges::count_if(*found, same) == 1 && goes_into(image, i)) continue;
            if (copied || 2 * value(image).dims[1] > value(to).dims[1]) return;
            copied = k;
        }
        gone_[i] = !copied;
        if (copied) copy_into(i, (*found)[*copied]);
        for (const Piece& piece : *found) {
            if (copied && piece.begin == (*found)[*copied].begin) continue;
            // What was a part of it becomes one of the whole.
            const std::vector<ValueId> inside = std::exchange(aliases_[piece.image], {});
            make_part(piece.image, to, piece.begin);
            for (const ValueId id : inside)
                make_part(id, to, piece.begin + value(id).alias_from);
        }
    }

    /// The concatenation copies this input alone to its place.
    void copy_into(std::size_t i, const Piece& piece) {
        FusedOp& op = plan_.ops[i];
        const ValueId to = op.outputs[0];
        Value made = value(piece.image);
        made.name.clear();
        made.weight = none;
        const auto id = static_cast<ValueId>(plan_.values.size());
        plan_.values.push_back(std::move(made));
        readers_.emplace_back();
        aliases_.emplace_back();
        makers_.push_back(static_cast<std::uint32_t>(i));
        make_part(id, to, piece.begin);
        op.detail = Reformat{};
        op.inputs = {piece.image};
        op.outputs = {id};
    }

    Plan& plan_;
    std::vector<bool> gone_;                          ///< by operation
    std::vector<std::vector<std::uint32_t>> readers_; ///< operations, by value
    std::vector<std::vector<ValueId>> aliases_;       ///< by value
    std::vector<std::uint32_t> makers_;               ///< operation, by value
};

} // namespace

void place_parts(Plan& plan) { Placer(plan).run(); }

bool touches_parts(const FusedOp& op, const Plan& plan) {
    const auto part = [&](ValueId id) { return plan.values[id].part; };
    return std::ranges::any_of(op.inputs, part) || std::ranges::any_of(op.outputs, part);
}

} // namespace lathe::cuda
