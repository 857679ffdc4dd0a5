#pragma once

#include <memory>
#include <vector>

#include "backends/api/backend.hpp"
#include "lathe/engine.hpp"

namespace lathe {

struct Session::Impl {
    std::shared_ptr<const CompiledModel> compiled; ///< outlives the backend's session
    std::unique_ptr<BackendSession> backend;

    Result<void> set_inputs(std::span<const TensorView> inputs);
    Result<std::vector<TensorView>> outputs();
};

} // namespace lathe
