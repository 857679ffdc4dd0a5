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

/// A node that has no GPU form, and why.
struct Refusal {
    std::string node, op_type;
    std::vector<std::string> outputs;
    std::string reason;
};
/// What lowering makes of a model node by node, without ending at the first that it cannot take.
struct Survey {
    Model specialised; ///< for the shapes given; sizes that depend on data are open. Large initializers are inputs
    Model unified;     ///< the same as exporters' spellings were made one; refusals speak of its nodes
    std::vector<Refusal> refusals;
};
/// Errors: out_of_range where shapes contradict each other.
Result<Survey> survey(Prepared& prepared, const std::vector<Shape>& input_shapes);

/// Yes, or why this node cannot run on the GPU (what `Backend::supports` answers).
Support lowering_support(const Node& node, const Model& model);

/// Structure of a plan: ids in range, producers first, layouts and types fit each op. For tests and after load.
Result<void> verify(const Plan& plan);
/// Why this op cannot take or give its int8 values with a zero point other than 0; "" if it can. Convolutions without
/// padding, matrix products and residual sums hold what it adds in their biases; for all others it would be wrong.
std::string zero_point_misuse(const Plan& plan, const FusedOp& op);
/// Why this op cannot take or give its integers, or its float64; "" if it can. Types that only inputs and outputs have
/// are moved, converted, read by programs and computed with as whole numbers, and nothing else.
std::string type_misuse(const Plan& plan, const FusedOp& op);
/// Text form for golden tests, one op a line.
std::string print(const Plan& plan);

/// Blob section "prepared": little-endian, versioned. `owner` keeps the weights' bytes (mapped) alive.
Result<ByteChain> serialize(const Prepared& prepared);
Result<Prepared> deserialize(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

} // namespace lathe::cuda
