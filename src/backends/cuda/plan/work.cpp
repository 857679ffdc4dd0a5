#include "backends/cuda/plan/work.hpp"

#include <algorithm>
#include <set>

#include "backends/cuda/plan/overloaded.hpp"

namespace lathe::cuda {

namespace {

double bytes_of_weight(const Plan& plan, WeightId id) {
    if (id == none || plan.weights == nullptr) return 0;
    const Weight& weight = plan.weights->weights[id];
    double bytes = static_cast<double>(bytes_of(weight.type));
    for (const std::int64_t size : weight.dims)
        bytes *= static_cast<double>(size);
    return bytes;
}

double epilogue_bytes(const Plan& plan, const Epilogue& epilogue) {
    return bytes_of_weight(plan, epilogue.scale) + bytes_of_weight(plan, epilogue.bias);
}

/// Of weights that the operation reads whole; tables are only looked up.
double weights_read(const FusedOp& op, const Plan& plan) {
    return std::visit(
        Overloaded{
            [&](const Conv& conv) { return bytes_of_weight(plan, conv.weight) + epilogue_bytes(plan, conv.epilogue); },
            [&](const Depthwise& conv) {
                return bytes_of_weight(plan, conv.weight) + epilogue_bytes(plan, conv.epilogue);
            },
            [&](const Gemm& gemm) { return bytes_of_weight(plan, gemm.weight) + epilogue_bytes(plan, gemm.epilogue); },
            [&](const LayerNorm& norm) { return bytes_of_weight(plan, norm.gamma) + bytes_of_weight(plan, norm.beta); },
            [&](const Chain& chain) {
                double sum = 0;
                for (const FusedOp& part : chain.parts)
                    sum += weights_read(part, plan);
                return sum;
            },
            [](const auto&) { return 0.0; },
        },
        op.detail);
}

/// Of a part its own numbers alone.
double bytes_moved(const Value& value) {
    if (!value.part) return static_cast<double>(value.byte_size());
    return static_cast<double>(element_count(value.dims)) * static_cast<double>(bytes_of(value.type));
}

} // namespace

Work work_of(const FusedOp& op, const Plan& plan) {
    Work work;
    work.operations = 2.0 * static_cast<double>(op.macs);
    work.weight_bytes = weights_read(op, plan);
    double written = 0;
    std::set<ValueId> seen;
    for (const ValueId id : op.outputs) {
        if (id != none && seen.insert(id).second) written += bytes_moved(plan.values[id]);
    }
    work.activation_bytes = written;
    const bool takes_parts = std::holds_alternative<Slice>(op.detail) || std::holds_alternative<Gather>(op.detail) ||
                             std::holds_alternative<Rotary>(op.detail);
    if (const auto* gather = std::get_if<Gather>(&op.detail))
        work.activation_bytes += written * static_cast<double>(gather->tables.size());
    const auto* point = std::get_if<Pointwise>(&op.detail);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId id = op.inputs[i];
        const OperandView* view = point == nullptr ? nullptr : point->view(i);
        // Several views of one value are parts of it, or repeat it.
        if (id == none || (!seen.insert(id).second && view == nullptr)) continue;
        const Value& value = plan.values[id];
        double bytes = bytes_moved(value);
        if (view != nullptr) {
            const Shape& dims = plan.values[op.outputs[0]].dims;
            double numbers = 1;
            for (const ViewAxis& axis : view->axes)
                numbers *= axis.step == 0 ? 1 : static_cast<double>(dims[axis.axis]);
            bytes = std::min(bytes, numbers * static_cast<double>(bytes_of(value.type)));
        }
        if (value.role == Role::constant) {
            work.weight_bytes += takes_parts ? std::min(bytes, written) : bytes;
        } else {
            work.activation_bytes += takes_parts ? std::min(bytes, written) : bytes;
        }
    }
    return work;
}

double limit_us(const Work& work, const std::string& precision, const MachineLimits& machine) {
    if (machine.memory_bytes_per_second <= 0) return 0;
    const bool cached = machine.cache_bytes_per_second > 0 && work.activation_bytes <= machine.cache_bytes / 2;
    const double rate = cached ? machine.cache_bytes_per_second : machine.memory_bytes_per_second;
    const double moving = work.activation_bytes / rate + work.weight_bytes / machine.memory_bytes_per_second;
    const auto products = machine.operations_per_second.find(precision);
    const bool known = products != machine.operations_per_second.end() && products->second > 0;
    const double computing = known ? work.operations / products->second : 0;
    return 1e6 * std::max(moving, computing);
}

} // namespace lathe::cuda
