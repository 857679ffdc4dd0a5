#include <mutex>

#include "backends/cuda/device/cuda.hpp"
#include "backends/tensorrt/plan.hpp"
#include "backends/tensorrt/session.hpp"
#include "support/log.hpp"

namespace lathe::tensorrt {

namespace {

class TensorRtModel final : public CompiledModel {
public:
    explicit TensorRtModel(BuiltPlan built) : plan_(std::move(built.plan)), loaded_(std::move(built.loaded)) {}

    const std::vector<IoInfo>& inputs() const override { return plan_->inputs; }
    const std::vector<IoInfo>& outputs() const override { return plan_->outputs; }
    Result<std::unique_ptr<BackendSession>> make_session() const override {
        const std::lock_guard lock(mutex_);
        LATHE_CHECK(load());
        return open_session(loaded_);
    }
    Result<std::vector<LayerInfo>> layers() const override {
        const std::lock_guard lock(mutex_);
        look_inside();
        return inspected_.empty() ? plan_->layers : inspected_;
    }
    std::string layers_from() const override {
        const std::lock_guard lock(mutex_);
        look_inside();
        return to_string(inspected_.empty() ? plan_->layer_source : LayerSource::engine);
    }
    Result<ByteChain> save() const override { return write_blob(*plan_); }
    Result<BuildReport> report() const override { return plan_->report; }

private:
    Result<void> load() const {
        if (loaded_) return {};
        LATHE_TRY(loaded_, load_plan(plan_));
        return {};
    }
    /// A plan that was built without a GPU shows its layers where one is.
    void look_inside() const {
        if (looked_ || plan_->layer_source == LayerSource::engine || !cuda::device(0)) return;
        looked_ = true;
        auto loaded = load();
        auto found = loaded ? inspected_layers(*loaded_) : Result<std::vector<LayerInfo>>(loaded.error());
        if (found) {
            inspected_ = std::move(found).value();
        } else {
            log(LogLevel::warning, "layers are told from the network: " + found.error().describe());
        }
    }

    std::shared_ptr<const Plan> plan_;
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const LoadedPlan> loaded_; ///< from the first session or look on
    mutable std::vector<LayerInfo> inspected_;
    mutable bool looked_ = false;
};

} // namespace

ByteChain write_blob(const Plan& plan) {
    ByteChain bytes;
    bytes.add(plan.bytes, plan.owner);
    return write_tensorrt_form(plan, std::move(bytes));
}

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

std::unique_ptr<CompiledModel> make_compiled(BuiltPlan built) {
    return std::make_unique<TensorRtModel>(std::move(built));
}

} // namespace lathe::tensorrt
