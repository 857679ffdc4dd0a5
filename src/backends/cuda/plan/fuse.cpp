#include "backends/cuda/plan/fuse.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace lathe::cuda {
namespace {

class Fuser {
public:
    explicit Fuser(Plan& plan) : plan_(plan), readers_(plan.values.size(), 0), makers_(plan.values.size(), none) {
        for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
            for (const ValueId id : plan.ops[i].inputs)
                ++readers_[id];
            for (const ValueId id : plan.ops[i].outputs)
                makers_[id] = i;
        }
        for (const ValueId id : plan.outputs)
            ++readers_[id];
        for (const Value& value : plan.values)
            if (value.alias_of != none) ++readers_[value.alias_of];
    }

    void run() {
        std::vector<bool> gone(plan_.ops.size(), false);
        for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
            const auto concat = joined_by(plan_.ops[i]);
            if (!concat) continue;
            plan_.ops[i] = together(plan_.ops[*concat], plan_.ops[i]);
            gone[*concat] = true;
        }
        std::vector<FusedOp> left;
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (!gone[i]) left.push_back(std::move(plan_.ops[i]));
        plan_.ops = std::move(left);
    }

private:
    /// The concatenation whose only reader this program is.
    std::optional<std::uint32_t> joined_by(const FusedOp& op) const {
        if (!std::holds_alternative<Pointwise>(op.detail) || op.outputs.size() != 1) return std::nullopt;
        if (!std::get<Pointwise>(op.detail).views.empty()) return std::nullopt;
        const Value& out = plan_.values[op.outputs[0]];
        if (out.layout != Layout::nhwc) return std::nullopt;
        std::optional<std::uint32_t> found;
        for (const ValueId id : op.inputs) {
            const Value& x = plan_.values[id];
            if (makers_[id] != none) {
                const auto* concat = std::get_if<Concat>(&plan_.ops[makers_[id]].detail);
                // Rounded to int8 on the way; a joined value that is int8 itself keeps its own kernel.
                const bool kept = x.type == out.type && x.type != ElementType::s8;
                const bool alike = x.layout == Layout::nhwc && x.dims == out.dims &&
                                   (kept || (is_real(x.type) && out.type == ElementType::s8)) &&
                                   x.channel_stride == out.channel_stride;
                if (found || concat == nullptr || concat->axis != 1 || !concat->program.code.empty() ||
                    readers_[id] != 1 || !alike)
                    return std::nullopt;
                found = makers_[id];
            } else if (!by_channel(x, out)) {
                return std::nullopt;
            }
        }
        return found;
    }

    /// One number, or one a channel.
    static bool by_channel(const Value& x, const Value& out) {
        if (x.role != Role::constant || x.layout != Layout::linear) return false;
        if (element_count(x.dims) == 1) return true;
        const std::size_t rank = out.dims.size();
        if (x.dims.size() + 1 < rank || x.dims.size() > rank) return false;
        return element_count(x.dims) == out.dims[1] && x.dims[x.dims.size() + 1 - rank] == out.dims[1];
    }

    FusedOp together(const FusedOp& concat, const FusedOp& point) const {
        FusedOp op = point;
        op.nodes.insert(op.nodes.begin(), concat.nodes.begin(), concat.nodes.end());
        Concat detail = std::get<Concat>(concat.detail);
        detail.program = std::get<Pointwise>(point.detail);
        if (plan_.values[concat.outputs[0]].type != plan_.values[point.outputs[0]].type)
            detail.joined = concat.outputs[0];
        op.inputs = concat.inputs;
        std::vector<std::uint8_t> numbers;
        for (const ValueId id : point.inputs) {
            if (id == concat.outputs[0]) {
                numbers.push_back(0);
                continue;
            }
            op.inputs.push_back(id);
            numbers.push_back(static_cast<std::uint8_t>(++detail.operands));
        }
        for (PointInstruction& code : detail.program.code)
            if (code.op == PointOp::input) code.a = numbers[code.a];
        op.detail = std::move(detail);
        return op;
    }

    Plan& plan_;
    std::vector<std::size_t> readers_;
    std::vector<std::uint32_t> makers_; ///< op by value
};

/// Which slices and transpositions programs read through.
class ReadThrough {
public:
    explicit ReadThrough(Plan& plan) : plan_(plan), readers_(plan.values.size()), kept_(plan.values.size(), false) {
        for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
            for (const ValueId id : plan.ops[i].inputs)
                readers_[id].push_back(i);
        }
        for (const ValueId id : plan.outputs)
            kept_[id] = true;
        for (const Value& value : plan.values)
            if (value.alias_of != none)
                aliases_[value.alias_of].push_back(static_cast<ValueId>(&value - plan.values.data()));
    }

    void run() {
        // From the last: a movement behind another is read through before the one that it reads.
        for (std::uint32_t i = static_cast<std::uint32_t>(plan_.ops.size()); i-- > 0;) {
            const FusedOp& op = plan_.ops[i];
            if (!std::holds_alternative<Slice>(op.detail) && !std::holds_alternative<Transpose>(op.detail)) continue;
            const auto through = views_of(op);
            if (!through) continue;
            for (const auto& [reader, input, view] : *through) {
                FusedOp& point = plan_.ops[reader];
                auto& detail = std::get<Pointwise>(point.detail);
                detail.views.resize(point.inputs.size());
                detail.views[input] = view;
                point.inputs[input] = op.inputs[0];
                readers_[op.inputs[0]].push_back(reader);
            }
        }
    }

private:
    struct Use {
        std::uint32_t reader = 0;
        std::size_t input = 0;
        OperandView view;
    };

    /// The result itself and what has the same numbers with other axes of one element.
    std::vector<ValueId> forms(ValueId id) const {
        std::vector<ValueId> all{id};
        if (const auto found = aliases_.find(id); found != aliases_.end())
            all.insert(all.end(), found->second.begin(), found->second.end());
        return all;
    }

    static Shape without_ones(const Shape& dims) {
        Shape left;
        std::copy_if(dims.begin(), dims.end(), std::back_inserter(left), [](std::int64_t n) { return n != 1; });
        return left;
    }

    /// How all readers see what the movement reads; nothing if one of them cannot.
    std::optional<std::vector<Use>> views_of(const FusedOp& op) const {
        const ValueId made = op.outputs[0];
        const Value& from = plan_.values[op.inputs[0]];
        const Value& to = plan_.values[made];
        if (from.type != to.type || from.scale != to.scale || from.zero_point != to.zero_point ||
            from.layout != to.layout || from.role == Role::constant || from.role == Role::output ||
            (from.layout == Layout::nhwc && from.dims.size() == 3))
            return std::nullopt;
        std::vector<Use> uses;
        for (const ValueId form : forms(made)) {
            const Value& seen = plan_.values[form];
            if (kept_[form] ||
                (form != made && (aliases_.contains(form) || seen.layout != to.layout || seen.alias_from != 0 ||
                                  without_ones(seen.dims) != without_ones(to.dims) || to.layout != Layout::linear)))
                return std::nullopt;
            for (const std::uint32_t reader : readers_[form]) {
                const FusedOp& point = plan_.ops[reader];
                const auto* detail = std::get_if<Pointwise>(&point.detail);
                if (detail == nullptr) return std::nullopt;
                for (std::size_t input = 0; input < point.inputs.size(); ++input) {
                    if (point.inputs[input] != form) continue;
                    auto view = view_through(op, to, seen, point, detail->view(input));
                    if (!view) return std::nullopt;
                    uses.push_back({reader, input, std::move(*view)});
                }
            }
        }
        if (uses.empty()) return std::nullopt;
        return uses;
    }

    /// What a program sees of the movement's operand where it saw `view` of `seen`, a form of the movement's result.
    std::optional<OperandView> view_through(const FusedOp& op, const Value& made, const Value& seen,
                                            const FusedOp& point, const OperandView* view) const {
        const Value& out = plan_.values[point.outputs[0]];
        if (out.layout != made.layout || out.dims.empty() || seen.dims.empty() || out.dims.size() < seen.dims.size())
            return std::nullopt;
        // Along each axis of `seen`, what the program reads.
        std::vector<ViewAxis> read = view == nullptr ? std::vector<ViewAxis>(seen.dims.size()) : view->axes;
        for (std::size_t d = 0; view == nullptr && d < seen.dims.size(); ++d) {
            read[d].axis = out.dims.size() - seen.dims.size() + d;
            read[d].step = seen.dims[d] == 1 ? 0 : 1;
        }
        // The same along the axes of `made`: those of one element come and go.
        std::vector<ViewAxis> whole(made.dims.size());
        std::size_t next = 0;
        for (std::size_t d = 0; d < made.dims.size(); ++d) {
            if (made.dims[d] == 1) continue;
            while (seen.dims[next] == 1)
                ++next;
            whole[d] = read[next++];
        }
        OperandView result;
        result.axes.resize(made.dims.size());
        if (const auto* slice = std::get_if<Slice>(&op.detail)) {
            for (std::size_t d = 0; d < whole.size(); ++d) {
                if (slice->steps[d] < 0) return std::nullopt;
                result.axes[d] = {slice->starts[d] + slice->steps[d] * whole[d].start, slice->steps[d] * whole[d].step,
                                  whole[d].axis};
            }
        } else {
            const auto& order = std::get<Transpose>(op.detail).order;
            for (std::size_t d = 0; d < whole.size(); ++d)
                result.axes[static_cast<std::size_t>(order[d])] = whole[d];
        }
        if (!beside_each_other(plan_.values[op.inputs[0]], out, result)) return std::nullopt;
        return result;
    }

    /// Whether neighbouring results read neighbouring numbers, or every second: else a transposition through shared
    /// memory is worth its pass.
    static bool beside_each_other(const Value& value, const Value& out, const OperandView& view) {
        const std::size_t innermost = value.layout == Layout::nhwc ? 1 : value.dims.size() - 1;
        std::size_t last = out.layout == Layout::nhwc ? 1 : out.dims.size() - 1;
        while (out.layout == Layout::linear && last > 0 && out.dims[last] == 1)
            --last;
        for (std::size_t a = 0; a < view.axes.size(); ++a) {
            if (view.axes[a].step != 0 && view.axes[a].axis == last)
                return a == innermost ? view.axes[a].step <= 2 : value.dims[innermost] == 1;
        }
        return true; // all neighbours read one number
    }

    Plan& plan_;
    std::vector<std::vector<std::uint32_t>> readers_; ///< ops by value
    std::map<ValueId, std::vector<ValueId>> aliases_; ///< by what they are aliases of
    std::vector<bool> kept_;                          ///< read as an output
};

} // namespace

void fuse_programs(Plan& plan) { Fuser(plan).run(); }

void read_through_movements(Plan& plan) { ReadThrough(plan).run(); }

} // namespace lathe::cuda
