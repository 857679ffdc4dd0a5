#include "runtime/session.hpp"

#include <algorithm>

namespace lathe {

namespace {

/// Index of the input a view is for: by its name if it has one, else by its place.
Result<std::size_t> index_for(const std::vector<IoInfo>& inputs, const TensorView& view, std::size_t place) {
    if (view.name.empty() || view.name == inputs[place].name) return place;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].name == view.name) return i;
    }
    std::string names;
    for (const auto& input : inputs)
        names += (names.empty() ? "" : ", ") + input.name;
    return Error{ErrorCode::invalid_argument, "the engine has no input named \"" + view.name + "\"", "",
                 "its inputs: " + names};
}

} // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::vector<IoInfo>& Session::inputs() const { return impl_->compiled->inputs(); }
const std::vector<IoInfo>& Session::outputs() const { return impl_->compiled->outputs(); }

Result<std::vector<TensorView>> Session::run(std::span<const TensorView> inputs) {
    const std::vector<IoInfo>& wanted = impl_->compiled->inputs();
    if (inputs.size() != wanted.size()) {
        return Error{ErrorCode::invalid_argument,
                     "the engine has " + std::to_string(wanted.size()) + " inputs, " + std::to_string(inputs.size()) +
                         " were given",
                     "", ""};
    }
    std::vector<bool> seen(wanted.size(), false);
    for (std::size_t place = 0; place < inputs.size(); ++place) {
        LATHE_TRY(const std::size_t index, index_for(wanted, inputs[place], place));
        if (seen[index]) {
            return Error{ErrorCode::invalid_argument, "input given twice", wanted[index].name, ""};
        }
        seen[index] = true;
        LATHE_CHECK(impl_->backend->set_input(index, inputs[place]));
    }
    LATHE_CHECK(impl_->backend->run());
    std::vector<TensorView> outputs;
    outputs.reserve(impl_->compiled->outputs().size());
    for (std::size_t i = 0; i < impl_->compiled->outputs().size(); ++i) {
        LATHE_TRY(TensorView view, impl_->backend->output(i));
        outputs.push_back(std::move(view));
    }
    return outputs;
}

Result<std::vector<LayerInfo>> Session::profile() { return impl_->backend->profile(); }

} // namespace lathe
