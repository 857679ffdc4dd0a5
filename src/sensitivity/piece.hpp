#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/backend.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Values by name, while a network is run piece by piece. Somebody else owns them.
using Values = std::unordered_map<std::string, TensorView>;

/// A model compiled and ready to run on values by name. All its shapes are fixed.
class Piece {
public:
    /// The backend must outlive it. A quantised model is taken as its graph says, the rest of it in float32.
    static Result<Piece> compile(const Backend& backend, const Model& model, std::size_t threads);

    const std::vector<IoInfo>& inputs() const { return compiled_->inputs(); }
    /// Runs on `changed` where it has an input, else on `values` (both are read in place), and returns the outputs:
    /// views that stay valid until the next run. Errors: internal for an input that neither has.
    Result<Values> run(const Values& changed, const Values& values);

private:
    Piece(std::unique_ptr<CompiledModel> compiled, std::unique_ptr<BackendSession> session)
        : compiled_(std::move(compiled)), session_(std::move(session)) {}

    std::unique_ptr<CompiledModel> compiled_;
    std::unique_ptr<BackendSession> session_;
};

} // namespace lathe
