#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/cuda/plan/ir.hpp"
#include "graph/graph.hpp"

namespace lathe::cuda {

/// A model made ready once: passes run, initializers over 64 KiB taken out (they are inputs of `model`, their bytes in
/// `large`). Serialised into the blob, so that an engine can be specialised for further shapes without the user's
/// weights.
struct Prepared {
    Model model;
    std::map<std::string, Tensor> large; ///< empty after load: every packing is in `weights` by then
    std::shared_ptr<WeightStore> weights;
    Precision precision = Precision::float32;
};
Result<Prepared> prepare(const Model& model, Precision precision);

/// The plan for these input shapes (in order of the model's inputs). Errors: unsupported, listing every node that
/// cannot be taken with its reason (one a line); out_of_range where shapes contradict each other. Deterministic;
/// thread-safe apart from `weights`.
Result<Plan> lower(Prepared& prepared, const std::vector<Shape>& input_shapes);

/// Yes, or why this node cannot run on the GPU (what `Backend::supports` answers).
Support lowering_support(const Node& node, const Model& model);

/// Structure of a plan: ids in range, producers first, layouts and types fit each op. For tests and after load.
Result<void> verify(const Plan& plan);
/// Why this op cannot take or give its int8 values with a zero point other than 0; "" if it can. Convolutions without
/// padding, matrix products and residual sums hold what it adds in their biases; for all others it would be wrong.
std::string zero_point_misuse(const Plan& plan, const FusedOp& op);
/// Text form for golden tests, one op a line.
std::string print(const Plan& plan);

/// Blob section "prepared": little-endian, versioned. `owner` keeps the weights' bytes (mapped) alive.
Result<ByteChain> serialize(const Prepared& prepared);
Result<Prepared> deserialize(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

} // namespace lathe::cuda
