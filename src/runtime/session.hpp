#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/api/backend.hpp"
#include "lathe/engine.hpp"

namespace lathe {

struct Session::Impl {
    std::shared_ptr<const CompiledModel> compiled; ///< outlives the backend's session
    std::unique_ptr<BackendSession> backend;

    Result<void> set_inputs(std::span<const TensorView> inputs);
    /// Checks count and names, and gives each to `take` with the index of its input.
    Result<void> give(std::span<const TensorView> inputs,
                      const std::function<Result<void>(std::size_t, const TensorView&)>& take) const;
    Result<std::vector<TensorView>> outputs();
};

} // namespace lathe
