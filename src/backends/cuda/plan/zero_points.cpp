#include <algorithm>
#include <optional>

#include "backends/cuda/plan/lower.hpp"

namespace lathe::cuda {
namespace {

const Epilogue* epilogue_of(const FusedOp& op) {
    if (const auto* conv = std::get_if<Conv>(&op.detail)) return &conv->epilogue;
    if (const auto* depthwise = std::get_if<Depthwise>(&op.detail)) return &depthwise->epilogue;
    if (const auto* gemm = std::get_if<Gemm>(&op.detail)) return &gemm->epilogue;
    return nullptr;
}

bool shifted(const Value& value) { return value.type == ElementType::s8 && value.zero_point != 0; }

std::string named(const Value& value) {
    return "'" + value.name + "' (int8, zero point " + std::to_string(value.zero_point) + ")";
}

/// Bytes go as they are from one layout to another.
bool copies(const Plan& plan, const FusedOp& op) {
    if (!std::holds_alternative<Reformat>(op.detail) || op.inputs.empty() || op.outputs.empty()) return false;
    const Value& from = plan.values[op.inputs[0]];
    const Value& to = plan.values[op.outputs[0]];
    return from.type == to.type && from.scale == to.scale && from.zero_point == to.zero_point;
}

} // namespace

std::string zero_point_misuse(const Plan& plan, const FusedOp& op) {
    if (copies(plan, op)) return "";
    const Epilogue* epilogue = epilogue_of(op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const Value& value = plan.values[op.inputs[i]];
        if (!shifted(value)) continue;
        if (epilogue == nullptr || (i == 0 && op.compute != ElementType::s8)) {
            return "it reads " + named(value) +
                   ", which only depthwise convolutions, others without padding, matrix products and residual sums in "
                   "int8 do: quantise "
                   "it symmetrically";
        }
        if (i > 0) continue; // the residual
        // Depthwise kernels pad with the zero point, others with what their copies from memory can: zeros.
        const auto* conv = std::get_if<Conv>(&op.detail);
        if (conv != nullptr && std::ranges::any_of(conv->window.pads, [](auto n) { return n != 0; })) {
            return "it pads " + named(value) +
                   " with stored zeros, which stand for another number: quantise it symmetrically";
        }
    }
    for (const ValueId id : op.outputs) {
        const Value& value = plan.values[id];
        if (!shifted(value)) continue;
        const auto* conv = std::get_if<Conv>(&op.detail);
        if (epilogue == nullptr || (conv != nullptr && conv->pooled)) {
            return "it would write " + named(value) +
                   ", which only convolutions and matrix products do: quantise it symmetrically";
        }
    }
    return "";
}

} // namespace lathe::cuda
