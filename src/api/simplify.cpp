#include "api/simplify.hpp"

#include <algorithm>
#include <utility>

#include "onnx/onnx.hpp"

namespace lathe {
namespace {

Result<void> set_inputs(const CompiledModel& compiled, BackendSession& session, std::span<HostTensor> inputs) {
    for (std::size_t i = 0; i < compiled.inputs().size(); ++i) {
        const std::string& name = compiled.inputs()[i].name;
        const auto input =
            std::find_if(inputs.begin(), inputs.end(), [&](const HostTensor& tensor) { return tensor.name == name; });
        if (input == inputs.end()) {
            return Error{ErrorCode::internal, "the backend asks for an input the model does not have", "input " + name,
                         "please report this"};
        }
        LATHE_CHECK(session.set_input(i, input->view()));
    }
    return {};
}

Result<std::vector<HostTensor>> outputs_of(const Model& model, const CompiledModel& compiled, BackendSession& session) {
    std::vector<HostTensor> outputs;
    for (const ValueInfo& wanted : model.graph.outputs) {
        const auto& all = compiled.outputs();
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const IoInfo& io) { return io.name == wanted.name; });
        if (found == all.end()) {
            return Error{ErrorCode::internal, "the backend does not give an output of the model",
                         "output " + wanted.name, "please report this"};
        }
        LATHE_TRY(const TensorView view, session.output(static_cast<std::size_t>(found - all.begin())));
        HostTensor output(wanted.name, view.type, view.shape);
        output.bytes.assign(view.bytes.begin(), view.bytes.end());
        outputs.push_back(std::move(output));
    }
    return outputs;
}

} // namespace

Runner runner_on(const Backend& backend) {
    return [&backend](const Model& model, std::span<const TensorSet> sets) -> Result<std::vector<TensorSet>> {
        std::vector<TensorSet> outputs;
        if (sets.empty()) return outputs;
        CompileOptions options;
        options.precision = Precision::float32;
        for (const HostTensor& input : sets.front())
            options.shapes[input.name] = {input.shape, input.shape, input.shape};
        LATHE_TRY(const auto compiled, backend.compile(model, options));
        LATHE_TRY(const auto session, compiled->make_session());
        for (const TensorSet& inputs : sets) {
            TensorSet own = inputs;
            LATHE_CHECK(set_inputs(*compiled, *session, own));
            LATHE_CHECK(session->run());
            LATHE_TRY(TensorSet results, outputs_of(model, *compiled, *session));
            outputs.push_back(std::move(results));
        }
        return outputs;
    };
}

Result<SimplifyReport> simplify_model(Model& model, const SimplifyOptions& options) {
    LATHE_TRY(const Backend* backend, backend_for_device("cpu"));
    return simplify(model, options, runner_on(*backend),
                    [](Model& each) { return infer_shapes(each, {.discard_existing = true}); });
}

Result<bool> simplifies_for_gpus(std::string_view device) {
    if (device == "cpu") return false;
    if (device == "cuda" || device == "tensorrt") return true;
    return Error{ErrorCode::invalid_argument, "unknown device \"" + std::string(device) + "\"", "--device",
                 "known devices: cpu, cuda, tensorrt"};
}

Json to_json(const SimplifyReport& report) {
    Json passes = Json::array();
    for (const PassCount& pass : report.passes)
        passes.push_back({{"name", pass.name}, {"changes", pass.changes}});
    return {{"kind", "simplify"},
            {"version", 1},
            {"before_nodes", report.before_nodes},
            {"after_nodes", report.after_nodes},
            {"before_initializers", report.before_initializers},
            {"after_initializers", report.after_initializers},
            {"rounds", report.rounds},
            {"passes", passes},
            {"verified_samples", report.samples},
            {"max_relative_error", report.max_error},
            {"warnings", report.warnings}};
}

Result<SimplifyReport> simplify(Model& model, const SimplifyRequest& request) {
    SimplifyOptions options;
    options.disabled = request.disabled;
    LATHE_TRY(options.for_gpus, simplifies_for_gpus(request.device));
    options.samples = request.samples;
    options.seed = request.seed;
    options.tolerance = request.tolerance;
    options.progress = request.progress;
    return simplify_model(model, options);
}

} // namespace lathe
