#include "backends/tensorrt/tensorrt_backend.hpp"

#include "backends/tensorrt/config.hpp"
#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/messages.hpp"
#include "backends/tensorrt/plan.hpp"

namespace lathe {

namespace {

class TensorRtBackend final : public Backend {
public:
    std::string name() const override { return "tensorrt"; }
    std::string device() const override { return "tensorrt"; }

    Availability availability() const override {
        const tensorrt::Library& library = tensorrt::library();
        Availability state;
        state.version = library.version.empty() ? "" : tensorrt::environment();
        state.available = library.found;
        state.cause = library.cause;
        state.cure = library.cure;
        if (!library.found) return state;
        state.devices.push_back(library.path + ", with the headers of " + tensorrt::header_version());
        state.devices.push_back(tensorrt::builder_needs_gpu() ? "builds engines for the GPU of this machine"
                                                              : "builds engines, with or without a GPU here");
        return state;
    }

    Support supports(const Node& node, const Model& /*model*/) const override {
        const tensorrt::Library& library = tensorrt::library();
        if (!library.found) return {false, library.cause};
        auto builder = library.make_builder();
        if (!builder) return {false, builder.error().message};
        const std::unique_ptr<nvinfer1::INetworkDefinition> network(
            (*builder)->createNetworkV2(tensorrt::network_flags()));
        if (!network) return {false, "TensorRT gave no network"};
        auto parser = library.make_parser(*network);
        if (!parser) return {false, parser.error().message};
        if ((*parser)->supportsOperator(node.op_type.c_str())) return {};
        return {false, std::string(tensorrt::product_name) + "'s parser does not know " + node.op_type};
    }

    Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const override {
        LATHE_TRY(auto built, tensorrt::build_plan(model, options));
        return tensorrt::make_compiled(std::move(built));
    }

    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                const CompileOptions& options) const override {
        LATHE_TRY(auto plan, tensorrt::read_blob(blob, std::move(owner), options));
        return tensorrt::make_compiled({std::move(plan), nullptr});
    }

    Result<std::unique_ptr<ActivationSource>> observe(const Model& /*model*/, std::vector<std::string> /*tensors*/,
                                                      std::size_t /*threads*/) const override {
        return Error{ErrorCode::unsupported, "TensorRT does not show a model's inner tensors", "tensorrt",
                     "calibrate with --device cpu; the ranges serve every target"};
    }

    std::string blob_key() const override { return tensorrt::environment(); }
    bool loads(const std::string& key, std::span<const std::byte> blob) const override {
        if (key == blob_key()) return true;
        const auto read = read_tensorrt_form(blob);
        return read && check_tensorrt_version(read->form, tensorrt::environment());
    }

    Traits traits() const override {
        Traits traits;
        traits.threads_matter = false;
        traits.profiles_without_recompiling = true;
        traits.sessions_share_engine = true;
        return traits;
    }
};

} // namespace

std::unique_ptr<Backend> make_tensorrt_backend() { return std::make_unique<TensorRtBackend>(); }

} // namespace lathe
