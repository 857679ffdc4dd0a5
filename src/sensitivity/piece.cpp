#include "sensitivity/piece.hpp"

#include <utility>

namespace lathe {

Result<Piece> Piece::compile(const Backend& backend, const Model& model, std::size_t threads) {
    CompileOptions options;
    options.precision = Precision::float32;
    options.threads = threads;
    // Samples side by side where there are more than two a core.
    options.batch_plan = BatchPlan::pieces;
    LATHE_TRY(auto compiled, backend.compile(model, options));
    LATHE_TRY(auto session, compiled->make_session());
    return Piece(std::move(compiled), std::move(session));
}

Result<Values> Piece::run(const Values& changed, const Values& values) {
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
        LATHE_CHECK(session_->set_input(i, found->second));
    }
    LATHE_CHECK(session_->run());
    Values outputs;
    for (std::size_t i = 0; i < compiled_->outputs().size(); ++i) {
        LATHE_TRY(TensorView view, session_->output(i));
        outputs.emplace(compiled_->outputs()[i].name, std::move(view));
    }
    return outputs;
}

} // namespace lathe
