#include <mutex>

#include "backends/api/tensorrt.hpp"
#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/plan.hpp"
#include "backends/tensorrt/session.hpp"
#include "support/json.hpp"

namespace lathe::tensorrt {

namespace {

Error corrupt(const std::string& why) {
    return {ErrorCode::corrupt, "the compiled form is damaged: " + why, "", "build the engine again"};
}

Json range_json(const ShapeRange& range) { return {range.min, range.opt, range.max}; }

ShapeRange range_from(const Json& json) {
    return {json.at(0).get<Shape>(), json.at(1).get<Shape>(), json.at(2).get<Shape>()};
}

Json io_json(const std::vector<IoInfo>& list) {
    Json array = Json::array();
    for (const auto& io : list)
        array.push_back({{"name", io.name}, {"type", to_string(io.type)}, {"range", range_json(io.range)}});
    return array;
}

std::vector<IoInfo> io_from(const Json& array) {
    std::vector<IoInfo> list;
    for (const auto& entry : array) {
        list.push_back({entry.at("name").get<std::string>(), data_type_from_name(entry.at("type").get<std::string>()),
                        range_from(entry.at("range"))});
    }
    return list;
}

void read_header(const Json& header, Plan& plan) {
    plan.environment = header.at("environment").get<std::string>();
    plan.inputs = io_from(header.at("inputs"));
    plan.outputs = io_from(header.at("outputs"));
    for (const Json& profile : header.at("profiles")) {
        auto& ranges = plan.profiles.emplace_back();
        for (const Json& range : profile)
            ranges.push_back(range_from(range));
    }
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
    Json profiles = Json::array(), layers = Json::array();
    for (const auto& profile : plan.profiles) {
        Json ranges = Json::array();
        for (const auto& range : profile)
            ranges.push_back(range_json(range));
        profiles.push_back(std::move(ranges));
    }
    for (const auto& layer : plan.layers)
        layers.push_back({layer.name, layer.type, layer.precision});
    const Json header{{"environment", plan.environment},
                      {"inputs", io_json(plan.inputs)},
                      {"outputs", io_json(plan.outputs)},
                      {"profiles", std::move(profiles)},
                      {"layers", std::move(layers)}};
    return write_tensorrt_blob(header.dump(-1, ' ', false, Json::error_handler_t::replace), plan.bytes);
}

Result<std::shared_ptr<const Plan>> read_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner) {
    LATHE_TRY(const TensorRtBlob parts, read_tensorrt_blob(blob));
    LATHE_TRY(const Json header, parse_json(parts.header, "compiled form"));
    auto plan = std::make_shared<Plan>();
    try {
        read_header(header, *plan);
    } catch (const Json::exception& error) {
        return corrupt(error.what());
    }
    for (const auto& profile : plan->profiles) {
        if (profile.size() != plan->inputs.size()) return corrupt("a profile does not have a range an input");
    }
    if (plan->environment != environment()) {
        return Error{ErrorCode::mismatch, "built by " + plan->environment + ", here " + environment(), "",
                     "build the engine again"};
    }
    plan->bytes = parts.plan;
    plan->owner = std::move(owner);
    return std::shared_ptr<const Plan>(std::move(plan));
}

std::unique_ptr<CompiledModel> make_compiled(std::shared_ptr<const Plan> plan) {
    return std::make_unique<TensorRtModel>(std::move(plan));
}

} // namespace lathe::tensorrt
