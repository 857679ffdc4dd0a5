#include "backends/openvino/openvino_backend.hpp"

#include <set>
#include <unordered_set>

#include "backends/openvino/activation_source.hpp"
#include "backends/openvino/compiled.hpp"
#include "backends/openvino/core.hpp"
#include "graph/subgraphs.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"

namespace lathe {

namespace {

/// A model of this node alone: what it reads becomes inputs, or constants where the model has them as constants.
Model model_of(const Node& node, const Model& model) {
    Model one;
    one.ir_version = model.ir_version;
    one.opsets = model.opsets;
    one.opaque_functions = model.opaque_functions;
    one.graph.name = "node";
    std::unordered_set<std::string> seen;
    std::vector<std::string> names = node.inputs;
    for (const auto& captured : captured_names(node))
        names.push_back(captured);
    for (const auto& name : names) {
        if (name.empty() || !seen.insert(name).second) continue;
        if (const Tensor* constant = model.graph.constant(name)) {
            one.graph.initializers.emplace(name, *constant);
            continue;
        }
        ValueInfo info = model.graph.info_or_name(name);
        if (info.type == DataType::undefined && info.opaque_type.empty()) info.type = DataType::float32;
        one.graph.inputs.push_back(std::move(info));
    }
    for (const auto& name : node.outputs) {
        if (!name.empty()) one.graph.outputs.push_back(model.graph.info_or_name(name));
    }
    one.graph.add(node);
    return one;
}

class OpenVinoBackend final : public Backend {
public:
    std::string name() const override { return "openvino"; }
    std::string device() const override { return "cpu"; }

    Availability availability() const override {
        Availability state;
        auto found = openvino::guarded("OpenVINO cannot start", "openvino", [&]() -> Result<std::string> {
            state.version = openvino::library_version();
            return openvino::core().get_property("CPU", ov::device::full_name);
        });
        if (found) {
            state.available = true;
            state.devices.push_back(std::move(found).value());
        } else {
            state.cause = found.error().message;
            state.cure = "install OpenVINO 2026.4 with its CPU plugin beside the libraries (scripts/setup.sh does)";
        }
        return state;
    }

    Support supports(const Node& node, const Model& model) const override {
        const auto read = openvino::to_openvino(model_of(node, model));
        if (read) return {};
        return {false, read.error().message};
    }

    Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const override {
        return openvino::compile_model(model, options);
    }

    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                const CompileOptions& options) const override {
        return openvino::load_blob(blob, std::move(owner), options);
    }

    Result<std::unique_ptr<ActivationSource>> observe(const Model& model, std::vector<std::string> tensors,
                                                      std::size_t threads) const override {
        return openvino::make_activation_source(model, std::move(tensors), threads);
    }

    std::string blob_key() const override {
        // Compiled kernels depend on the processor; streams in the blob on the number of cores.
        const Machine machine = this_machine();
        // The number goes up where what was saved before is not to be loaded (2: layers of LSTMs read wrongly).
        return "openvino " + openvino::library_version() + "; form 2; " + machine.cpu_model + "; " +
               std::to_string(machine.cores) + " cores; features " + machine.fingerprint();
    }
};

} // namespace

std::unique_ptr<Backend> make_openvino_backend() { return std::make_unique<OpenVinoBackend>(); }

} // namespace lathe
