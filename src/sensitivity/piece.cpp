#include "sensitivity/piece.hpp"

#include <utility>

namespace lathe {

Result<Piece> Piece::compile(const Backend& backend, const Model& model, std::size_t threads) {
    CompileOptions options;
    options.precision = Precision::float32;
    options.threads = threads;
    // Samples side by side, one core each: ResNet-50's sensitivity takes half the time of all cores on each sample.
    options.batch_plan = BatchPlan::pieces;
    LATHE_TRY(auto compiled, backend.compile(model, options));
    LATHE_TRY(auto session, compiled->make_session());
    return Piece(std::move(compiled), std::move(session));
}

Result<Values> Piece::run(Values& changed, Values& values) {
    for (std::size_t i = 0; i < compiled_->inputs().size(); ++i) {
        const std::string& name = compiled_->inputs()[i].name;
        auto found = changed.find(name);
        if (found == changed.end()) {
            found = values.find(name);
            if (found == values.end()) {
                return Error{ErrorCode::internal, "a value was not computed before it is read", name,
                             "please report this"};
            }
        }
        LATHE_CHECK(session_->set_input(i, found->second.view()));
    }
    LATHE_CHECK(session_->run());
    Values outputs;
    for (std::size_t i = 0; i < compiled_->outputs().size(); ++i) {
        LATHE_TRY(const TensorView view, session_->output(i));
        HostTensor tensor;
        tensor.name = compiled_->outputs()[i].name;
        tensor.type = view.type;
        tensor.shape = view.shape;
        tensor.bytes.assign(view.bytes.begin(), view.bytes.end());
        std::string name = tensor.name;
        outputs.emplace(std::move(name), std::move(tensor));
    }
    return outputs;
}

} // namespace lathe
