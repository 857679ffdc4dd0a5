#include "backends/cuda/plan/lower.hpp"

namespace lathe::cuda {
namespace {

/// Moves or converts numbers of any type, or computes with them as they are.
bool takes_all(const FusedOp& op) {
    if (const auto* concat = std::get_if<Concat>(&op.detail)) return concat->program.code.empty();
    if (const auto* gather = std::get_if<Gather>(&op.detail)) return gather->tables.empty();
    return std::holds_alternative<Indexed>(op.detail) || std::holds_alternative<Reformat>(op.detail) ||
           std::holds_alternative<Transpose>(op.detail) || std::holds_alternative<Slice>(op.detail) ||
           std::holds_alternative<Pointwise>(op.detail);
}

} // namespace

std::string type_misuse(const Plan& plan, const FusedOp& op) {
    for (const auto* list : {&op.inputs, &op.outputs}) {
        for (const ValueId id : *list) {
            const Value& value = plan.values[id];
            if (value.type <= ElementType::boolean) continue;
            const bool converts = std::holds_alternative<Reformat>(op.detail);
            if (value.type == ElementType::f64 ? converts : takes_all(op)) continue;
            return std::string("it ") + (list == &op.inputs ? "reads" : "gives") + " '" + value.name + "' of " +
                   to_string(value.type) + ", which " + kind_of(op) +
                   " does not compute in on the GPU: cast it to float32 or int32 before";
        }
    }
    return "";
}

} // namespace lathe::cuda
