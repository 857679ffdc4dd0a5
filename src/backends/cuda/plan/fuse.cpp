#include "backends/cuda/plan/fuse.hpp"

#include <algorithm>
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

} // namespace

void fuse_programs(Plan& plan) { Fuser(plan).run(); }

} // namespace lathe::cuda
