#include "backends/cuda/device/bound.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace lathe::cuda {

namespace {

Result<Port> port_of(const Bound& bound, ValueId id, const IoInfo& io) {
    const Value& value = bound.source->plan.values[id];
    Port port;
    port.device = bound.values[id];
    port.shape = value.dims;
    port.bytes = byte_size(io.type, static_cast<std::size_t>(element_count(value.dims)));
    if (value.layout != Layout::linear || port.bytes != value.byte_size()) {
        return Error{ErrorCode::internal,
                     std::string("the plan keeps it as ") + to_string(value.type) + ", the model as " +
                         lathe::to_string(io.type),
                     io.name, "report this"};
    }
    return port;
}

} // namespace

Result<void> Bound::enqueue_kernels(cudaStream_t stream, std::size_t count) const {
    bool after_waiting = false;
    for (std::size_t i = 0; i < count; ++i) {
        // A kernel may start before the one before it has ended if both keep to the rule: wait before touching
        // activations.
        const bool waits = source->kernels[i]->waits();
        if (auto launched = kernels[i]->launch(stream, waits && after_waiting); !launched)
            return std::move(launched).error().in(source->plan.ops[i].name + " (" + source->tactics[i] + ")");
        after_waiting = waits;
    }
    return {};
}

Result<std::vector<LayerInfo>> Bound::time_layers(const Stream& stream,
                                                  const std::function<Result<void>()>& copy_in) const {
    constexpr std::size_t runs = 5;
    const std::size_t count = kernels.size();
    std::vector<Event> marks(count + 1);
    for (Event& mark : marks) {
        LATHE_TRY(mark, Event::create(true));
    }
    std::vector<std::vector<double>> times(count);
    for (std::size_t run = 0; run < runs; ++run) {
        LATHE_CHECK(copy_in());
        LATHE_CHECK(marks[0].record(stream));
        for (std::size_t i = 0; i < count; ++i) {
            LATHE_CHECK(kernels[i]->launch(stream.get(), false));
            LATHE_CHECK(marks[i + 1].record(stream));
        }
        LATHE_CHECK(stream.synchronize("running the model"));
        for (std::size_t i = 0; i < count; ++i) {
            LATHE_TRY(const double ms, marks[i + 1].since(marks[i]));
            times[i].push_back(ms);
        }
    }
    std::vector<LayerInfo> layers;
    for (std::size_t i = 0; i < count; ++i) {
        const FusedOp& op = source->plan.ops[i];
        std::nth_element(times[i].begin(), times[i].begin() + runs / 2, times[i].end());
        layers.push_back({op.name, op.nodes, kind_of(op), op.tf32 ? "tf32" : to_string(op.compute), source->tactics[i],
                          times[i][runs / 2]});
    }
    return layers;
}

Result<std::unique_ptr<Bound>> bind_plan(EngineState& state, std::size_t place,
                                         std::shared_ptr<const DevicePlan> source, const DeviceMemory& arena,
                                         const DeviceMemory& workspace) {
    auto bound = std::make_unique<Bound>();
    bound->source = std::move(source);
    const DevicePlan& plan = *bound->source;
    {
        const std::lock_guard lock(state.mutex);
        bound->weights = state.devices[place]->weights;
    }
    bound->values = value_addresses(plan.plan, plan.memory, arena.data(), bound->weights);
    const Pointers pointers{bound->values, bound->weights, workspace.data()};
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
        auto kernel = plan.kernels[i]->bind(pointers);
        if (!kernel) return std::move(kernel).error().in(plan.plan.ops[i].name);
        bound->kernels.push_back(std::move(kernel).value());
    }
    for (std::size_t i = 0; i < state.inputs.size(); ++i) {
        LATHE_TRY(Port port, port_of(*bound, plan.plan.inputs[i], state.inputs[i]));
        bound->inputs.push_back(std::move(port));
    }
    for (std::size_t i = 0; i < state.outputs.size(); ++i) {
        LATHE_TRY(Port port, port_of(*bound, plan.plan.outputs[i], state.outputs[i]));
        bound->outputs.push_back(std::move(port));
    }
    for (std::size_t i = plan.plan.model_outputs(); i < plan.plan.outputs.size(); ++i)
        bound->counts.push_back(bound->values[plan.plan.outputs[i]]);
    return bound;
}

} // namespace lathe::cuda
