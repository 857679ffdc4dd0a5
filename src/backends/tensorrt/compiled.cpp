#include <mutex>

#include "backends/tensorrt/plan.hpp"
#include "backends/tensorrt/session.hpp"

namespace lathe::tensorrt {

namespace {

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

std::string write_blob(const Plan& plan) { return write_tensorrt_form(plan, plan.bytes); }

Result<std::shared_ptr<const Plan>> read_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                              const CompileOptions& options) {
    LATHE_TRY(TensorRtFormAndPlan read, read_tensorrt_form(blob));
    LATHE_CHECK(check_tensorrt_version(read.form, environment()));
    auto plan = std::make_shared<Plan>();
    static_cast<TensorRtForm&>(*plan) = std::move(read.form);
    plan->bytes = read.plan;
    plan->graph = options.graph;
    plan->precision = options.precision;
    plan->owner = std::move(owner);
    return std::shared_ptr<const Plan>(std::move(plan));
}

std::unique_ptr<CompiledModel> make_compiled(std::shared_ptr<const Plan> plan) {
    return std::make_unique<TensorRtModel>(std::move(plan));
}

} // namespace lathe::tensorrt
