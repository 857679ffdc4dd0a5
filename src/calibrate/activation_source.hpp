#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Runs a floating-point model and shows the values of chosen tensors. Calibration asks this, never a backend by name.
class ActivationSource {
public:
    virtual ~ActivationSource() = default;
    /// Names of the observed tensors, in the order in which they are shown.
    virtual const std::vector<std::string>& tensors() const = 0;
    /// Run one batch. Afterwards `observed[i]` views tensor i as float32; the views stay valid until the next call.
    virtual Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) = 0;
};

} // namespace lathe
