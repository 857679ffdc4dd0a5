#pragma once

#include <string>
#include <vector>

#include "backends/cuda/plan/lower.hpp"
#include "graph/graph.hpp"

namespace lathe::cuda {

/// A piece of a model that runs in one place.
struct Part {
    bool gpu = false;
    /// Its inputs are the model's own or results of earlier parts; its outputs what later parts or the caller read.
    /// All sizes of a part for the GPU are fixed.
    Model model;
    std::vector<std::string> reasons; ///< of a part on the CPU: its nodes, and why each is there
};
/// A model in parts that run one after the other.
struct Cut {
    std::vector<Part> parts;
    std::vector<std::string> copied; ///< values that go from one part to another
};

/// Cuts a model, for these shapes of its inputs, into parts that `lower` takes and parts for the CPU. What lies on the
/// GPU behind something that is on the CPU comes back to it only where products or convolutions are to be computed.
/// Errors: unsupported (nothing that is worth a GPU is left on it), out_of_range (shapes contradict each other).
Result<Cut> cut(const Model& model, const std::vector<Shape>& input_shapes, Precision precision);

} // namespace lathe::cuda
