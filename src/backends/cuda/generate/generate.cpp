#include "backends/cuda/generate/generate.hpp"

#include <algorithm>

#include "backends/cuda/generate/emit.hpp"

namespace lathe::cuda {

namespace generated {

Family refused(std::string why) { return {{}, std::move(why)}; }

namespace {

/// Inputs broadcast to the outputs, which are alike.
Result<Space> pointwise_space(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](const char* why) { return Error{ErrorCode::unsupported, why, op.name, ""}; };
    const auto* program = std::get_if<Pointwise>(&op.detail);
    if (program != nullptr && program->results.size() != op.outputs.size())
        return cannot("a program of other results than outputs");
    const Value& y = plan.values[op.outputs[0]];
    for (const ValueId id : op.outputs) {
        const Value& each = plan.values[id];
        if (each.dims != y.dims || each.layout != y.layout || each.channel_stride != y.channel_stride)
            return cannot("results of several layouts");
    }
    const View to = view_of(y);
    Space space = space_of(plan, op.outputs, false);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId id = op.inputs[i];
        if (const OperandView* seen = program != nullptr ? program->view(i) : nullptr) {
            if (to.dims.size() != y.dims.size()) return cannot("a part of an image of rank 3");
            const View whole = view_of(plan.values[id]);
            add_input(space, plan, id, to, seen->strides(whole.strides, to.dims.size()), seen->offset(whole.strides));
            continue;
        }
        View from = view_of(plan.values[id]);
        const bool flat = to.nhwc() && y.dims.size() == 3;
        if (flat && !from.nhwc() && from.dims.size() == 3) insert_height(from);
        if (flat && !from.nhwc() && from.dims.size() == 2) {
            // [c, w] beside [n, c, 1, w]
            from.dims.insert(from.dims.begin() + 1, 1);
            from.strides.insert(from.strides.begin() + 1, 0);
        }
        if (from.dims.size() > to.dims.size()) return cannot("an input of a higher rank than the output");
        const std::size_t missing = to.dims.size() - from.dims.size();
        std::vector<std::int64_t> strides(to.dims.size(), 0);
        for (std::size_t d = 0; d < from.dims.size(); ++d) {
            if (from.dims[d] != 1 && from.dims[d] != to.dims[missing + d])
                return cannot("an input that does not broadcast to the output");
            strides[missing + d] = from.dims[d] == 1 ? 0 : from.strides[d];
        }
        add_input(space, plan, id, to, strides, 0);
    }
    space.collapse();
    return space;
}

Result<Space> elementwise_space(const FusedOp& op, const Plan& plan) {
    return std::holds_alternative<Pointwise>(op.detail) || computes_integers(op, plan) ? pointwise_space(op, plan)
                                                                                       : movement_space(op, plan);
}

bool is_elementwise(const FusedOp& op, const Plan& plan) {
    return computes_integers(op, plan) || std::holds_alternative<Pointwise>(op.detail) ||
           std::holds_alternative<Transpose>(op.detail) || std::holds_alternative<Slice>(op.detail) ||
           std::holds_alternative<Reformat>(op.detail);
}
bool is_reduction(const FusedOp& op) {
    return std::holds_alternative<Reduce>(op.detail) || std::holds_alternative<GlobalPool>(op.detail);
}
bool is_rows(const FusedOp& op) {
    return std::holds_alternative<Softmax>(op.detail) || std::holds_alternative<LayerNorm>(op.detail);
}

bool is_indexed(const FusedOp& op, IndexedKind kind) {
    const auto* indexed = std::get_if<Indexed>(&op.detail);
    return indexed != nullptr && indexed->kind == kind;
}

Family elementwise_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto space = elementwise_space(op, plan);
    if (!space) return refused(space.error().message);
    Family family;
    const bool moves = !std::holds_alternative<Pointwise>(op.detail) && !computes_integers(op, plan);
    if (moves && transposes(*space)) family.variants = transpose_variants(*space);
    for (const Vectors& each : vector_choices(elementwise_width(*space), space->total(), target))
        family.variants.push_back(each.id());
    return family;
}

Family family_of(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    for (const ValueId id : op.outputs)
        if (element_count(plan.values[id].dims) == 0) return refused("an empty result");
    if (is_elementwise(op, plan)) return elementwise_family(op, plan, target);
    if (is_reduction(op)) return reduce_family(op, plan, target);
    if (is_rows(op)) return rows_family(op, plan, target);
    if (std::holds_alternative<GroupFactors>(op.detail)) return factors_family(op, plan, target);
    if (std::holds_alternative<Rotary>(op.detail)) return rotary_family(op, plan, target);
    if (std::holds_alternative<Concat>(op.detail)) return concat_family(op, plan, target);
    if (std::holds_alternative<Pool>(op.detail)) return pool_family(op, plan, target);
    if (std::holds_alternative<Gather>(op.detail)) return gather_family(op, plan, target);
    if (std::holds_alternative<Resize>(op.detail)) return resize_family(op, plan, target);
    if (is_indexed(op, IndexedKind::pad)) return pad_family(op, plan, target);
    if (is_indexed(op, IndexedKind::gather_elements)) return places_family(op, plan, target);
    return refused("no kernel is generated for this operation");
}

} // namespace
} // namespace generated

std::vector<std::string> generated_variants(const FusedOp& op, const Plan& plan, const GeneratedTarget& target,
                                            std::string& why) {
    generated::Family family = generated::family_of(op, plan, target);
    why = std::move(family.why);
    return std::move(family.variants);
}

Result<GeneratedKernel> generate(const std::string& variant, const FusedOp& op, const Plan& plan,
                                 const GeneratedTarget&) {
    using namespace generated;
    if (is_reduction(op)) return emit_reduce(variant, op, plan);
    if (is_rows(op)) return emit_rows(variant, op, plan);
    if (std::holds_alternative<GroupFactors>(op.detail)) return emit_factors(variant, op, plan);
    if (std::holds_alternative<Rotary>(op.detail)) return emit_rotary(variant, op, plan);
    if (std::holds_alternative<Concat>(op.detail)) return emit_concat(variant, op, plan);
    if (std::holds_alternative<Pool>(op.detail)) return emit_pool(variant, op, plan);
    if (std::holds_alternative<Gather>(op.detail)) return emit_gather(variant, op, plan);
    if (std::holds_alternative<Resize>(op.detail)) return emit_resize(variant, op, plan);
    if (is_indexed(op, IndexedKind::pad)) return emit_pad(variant, op, plan);
    if (is_indexed(op, IndexedKind::gather_elements)) return emit_places(variant, op, plan);
    if (!is_elementwise(op, plan)) return no_variant(variant);
    LATHE_TRY(const Space space, elementwise_space(op, plan));
    if (variant.starts_with("t")) {
        if (!transposes(space)) return no_variant(variant);
        return emit_transpose(space, variant);
    }
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    return emit_elementwise(space, op, kind_of(op), vectors);
}

} // namespace lathe::cuda
