#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Runs a floating-point model and shows the values of chosen tensors. Calibration asks this, never a backend by name.
///
/// Runs on different lanes may go on at the same time, on threads of the caller's. Order: set_lanes, then runs.
class ActivationSource {
public:
    /// Is shown tensor `tensors()[i]`: its values in whatever order the source holds them, valid during the call only.
    /// `shape` is the tensor's where that order is the tensor's own, row-major, and empty otherwise.
    /// Called while the model runs, perhaps on another thread, but never twice at a time for one lane.
    using Observer = std::function<void(std::size_t i, std::span<const float> values, const Shape& shape)>;

    virtual ~ActivationSource() = default;
    /// Names of the observed tensors.
    virtual const std::vector<std::string>& tensors() const = 0;
    /// Prepares for at most `most` (> 0) runs side by side and says for how many, at least 1. Without it there is one
    /// lane.
    virtual std::size_t set_lanes(std::size_t most) = 0;
    /// Runs one batch on a lane and shows every tensor once, in any order.
    virtual Result<void> run(std::size_t lane, std::span<const TensorView> inputs, const Observer& observer) = 0;
};

} // namespace lathe
