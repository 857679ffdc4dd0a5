#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/api/backend.hpp"
#include "lathe/engine.hpp"

namespace lathe {

/// What a session consists of, and does for its public functions.
struct SessionParts {
    std::shared_ptr<const CompiledModel> compiled; ///< outlives the backend's session
    std::unique_ptr<BackendSession> backend;

    Result<void> set_inputs(std::span<const TensorView> inputs);
    /// Checks count and names, and gives each to `take` with the index of its input.
    Result<void> give(std::span<const TensorView> inputs,
                      const std::function<Result<void>(std::size_t, const TensorView&)>& take) const;
    Result<std::vector<TensorView>> outputs();
};

/// For what sessions do that the public interface does not have: device_run.hpp.
SessionParts& parts_of(Session& session);

struct Session::Impl : SessionParts {
    friend SessionParts& parts_of(Session& session) { return inside(session); }

private:
    static Impl& inside(Session& session) { return *session.impl_; }
};

} // namespace lathe
