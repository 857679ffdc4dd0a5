#include "runtime/session.hpp"

#include "runtime/match_inputs.hpp"

namespace lathe {

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::vector<IoInfo>& Session::inputs() const { return impl_->compiled->inputs(); }
const std::vector<IoInfo>& Session::outputs() const { return impl_->compiled->outputs(); }

Result<void> SessionParts::set_inputs(std::span<const TensorView> inputs) {
    return give(inputs, [&](std::size_t index, const TensorView& view) { return backend->set_input(index, view); });
}

Result<void> SessionParts::give(std::span<const TensorView> inputs,
                                const std::function<Result<void>(std::size_t, const TensorView&)>& take) const {
    LATHE_TRY(const auto indices, match_inputs(compiled->inputs(), inputs));
    for (std::size_t place = 0; place < inputs.size(); ++place)
        LATHE_CHECK(take(indices[place], inputs[place]));
    return {};
}

Result<std::vector<TensorView>> SessionParts::outputs() {
    std::vector<TensorView> views;
    views.reserve(compiled->outputs().size());
    for (std::size_t i = 0; i < compiled->outputs().size(); ++i) {
        LATHE_TRY(TensorView view, backend->output(i));
        views.push_back(std::move(view));
    }
    return views;
}

Result<std::vector<TensorView>> Session::run(std::span<const TensorView> inputs) {
    LATHE_CHECK(impl_->set_inputs(inputs));
    LATHE_CHECK(impl_->backend->run());
    return impl_->outputs();
}

Result<void> Session::start(std::span<const TensorView> inputs) {
    LATHE_CHECK(impl_->set_inputs(inputs));
    return impl_->backend->start();
}

Result<std::vector<TensorView>> Session::wait() {
    LATHE_CHECK(impl_->backend->wait());
    return impl_->outputs();
}

Result<void> Session::keep(std::span<const TensorView> inputs) {
    return impl_->give(
        inputs, [&](std::size_t index, const TensorView& view) { return impl_->backend->keep_input(index, view); });
}

Result<std::vector<TensorView>> Session::rerun() {
    LATHE_CHECK(impl_->backend->run());
    return impl_->outputs();
}

Result<std::vector<TensorView>> Session::run_pictures(const PictureBatch& batch) {
    if (inputs().size() != 1) {
        return Error{ErrorCode::invalid_argument, "the engine has several inputs", "",
                     "pictures can be given to models with one"};
    }
    LATHE_CHECK(impl_->backend->keep_pictures(0, batch));
    return rerun();
}

std::span<std::byte> Session::input_memory(std::size_t index) { return impl_->backend->input_memory(index); }

int Session::device() const { return impl_->backend->device(); }

Result<void> Session::set_timing(bool on) { return impl_->backend->set_timing(on); }

Result<RunTimes> Session::times() { return impl_->backend->times(); }

Result<double> Session::host_overhead_us() { return impl_->backend->host_overhead_us(); }

Result<std::vector<LayerInfo>> Session::profile() { return impl_->backend->profile(); }

} // namespace lathe
