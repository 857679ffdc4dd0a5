#include <mutex>

#include "backends/api/tensorrt.hpp"
#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/plan.hpp"
#include "backends/tensorrt/session.hpp"
#include "support/json.hpp"

namespace lathe::tensorrt {

namespace {

void read_layers(const Json& header, Plan& plan) {
    plan.environment = header.at("environment").get<std::string>();
    for (const Json& layer : header.at("layers")) {
        LayerInfo info;
        info.name = layer.at(0).get<std::string>();
        info.type = layer.at(1).get<std::string>();
        info.precision = layer.at(2).get<std::string>();
        info.nodes = {info.name};
        plan.layers.push_back(std::move(info));
    }
}

class TensorRtModel final : public CompiledModel {
public:
    explicit TensorRtModel(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

    const std::vector<IoInfo>& inputs() const override { return plan_->inputs; }
    const std::vector<IoInfo>& outputs() const override { return plan_->outputs; }
    Result<std::unique_ptr<BackendSession>> make_session() const override {
        const std::lock_guard lock(mutex_);
        if (!loaded_) {
            LATHE_TRY(loaded_, load_plan(plan_));
        }
        return open_session(loaded_);
    }
    /// As the network was parsed: loading a plan to see what the builder fused needs the GPU.
    Result<std::vector<LayerInfo>> layers() const override { return plan_->layers; }
    Result<std::string> save() const override { return write_blob(*plan_); }
    Result<BuildReport> report() const override { return plan_->report; }

private:
    std::shared_ptr<const Plan> plan_;
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const LoadedPlan> loaded_; ///< from the first session on
};

} // namespace

std::string write_blob(const Plan& plan) {
    Json layers = Json::array();
    for (const auto& layer : plan.layers)
        layers.push_back({layer.name, layer.type, layer.precision});
    Json header{{"environment", plan.environment}, {"layers", std::move(layers)}};
    add_bindings(header, plan);
    return write_compiled(tensorrt_format, header, plan.bytes);
}

Result<std::shared_ptr<const Plan>> read_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner) {
    LATHE_TRY(const CompiledForm parts, read_compiled(tensorrt_format, blob));
    LATHE_TRY(const Json header, parse_json(parts.header, "compiled form"));
    auto plan = std::make_shared<Plan>();
    LATHE_TRY(static_cast<CompiledBindings&>(*plan), read_bindings(header));
    try {
        read_layers(header, *plan);
    } catch (const Json::exception& error) {
        return damaged_form(error.what());
    }
    if (plan->environment != environment()) {
        return Error{ErrorCode::mismatch, "built by " + plan->environment + ", here " + environment(), "",
                     "build the engine again"};
    }
    plan->bytes = parts.body;
    plan->owner = std::move(owner);
    return std::shared_ptr<const Plan>(std::move(plan));
}

std::unique_ptr<CompiledModel> make_compiled(std::shared_ptr<const Plan> plan) {
    return std::make_unique<TensorRtModel>(std::move(plan));
}

} // namespace lathe::tensorrt
