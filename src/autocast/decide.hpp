#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autocast/facts.hpp"
#include "autocast/format.hpp"
#include "autocast/reduction.hpp"
#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"

namespace lathe {

/// Why a node computes in 16 bits or stays FP32: one vocabulary for --explain, reports and tests.
enum class CastReason {
    cast, ///< its range and depth fit
    // stays FP32
    excluded_by_user,
    has_body,             ///< If, Loop, Scan
    custom_op,            ///< not of ONNX's own domain
    op_fixed_type,        ///< ONNX does not define it in this type, at this opset
    makes_float,          ///< takes no floating-point tensor: its type is an attribute
    recurrent,            ///< rounding errors add up over the steps
    not_measured,         ///< no range is known of one of its tensors
    weight_overflow,      ///< a constant above the largest finite value
    weight_underflow,     ///< a constant that loses too much to subnormals
    activation_overflow,  ///< measured values, with headroom, above the largest finite value
    activation_underflow, ///< measured values so small that too much of the tensor would be lost
    product_overflow,     ///< a product or square inside it passes the largest finite value
    sum_overflow,         ///< a partial sum inside it may
    deep_reduction,       ///< the rounding errors of its sum pass the limit
    unknown_depth,        ///< it reduces, and how deep is not known
    feeds_exact,          ///< what reads it needs more bits: angles, positions, integers
    between_floats,       ///< fits, but stands between FP32 nodes: casts around it would cost more than it saves
};
/// The name used in JSON ("deep_reduction").
const char* to_string(CastReason reason);
/// One sentence for people.
const char* explain(CastReason reason);

struct AutocastOptions {
    HalfFormat format = fp16;
    /// Measured magnitudes count this many times, for data that calibration did not see. At least 1.
    double headroom = 2;
    /// Largest bound of a reduction's relative error.
    double error_limit = 0.01;
    Accumulators accumulators = Accumulators::fp32;
    /// Size of axes whose size is open, where a reduction runs over them.
    std::int64_t open_size = 256;
    /// Stay FP32: as PlacementOptions::exclude.
    std::vector<std::string> exclude;
    /// Type of the model's floating-point inputs and outputs: float32 keeps them.
    DataType io_type = DataType::float32;
};

/// One node that has floating-point tensors.
struct CastDecision {
    std::size_t index = 0; ///< in graph.nodes
    std::string node;      ///< Node::label()
    std::string op_type;
    CastReason reason = CastReason::cast;
    std::string detail; ///< numbers or names behind the reason; may be empty
    double absmax = 0;  ///< largest magnitude of its measured tensors
    std::optional<Reduction> reduction;
    double error_bound = 0;     ///< of the reduction
    double largest_product = 0; ///< products or squares inside it, bounded by the factors' extremes
    double largest_sum = 0;     ///< partial sums inside it, likewise

    bool is_cast() const { return reason == CastReason::cast; }
};

struct AutocastPlan {
    std::vector<CastDecision> decisions; ///< in graph order
    std::vector<TensorFacts> tensors;    ///< every float32 tensor of which something is known; constants too
};

/// Decide for every node of the top graph. Constants are expected as initializers, types and shapes as inferred.
/// Errors: invalid_argument (Q/DQ in the model, malformed --exclude, bad options), not_found (a pattern that matches
/// nothing).
Result<AutocastPlan> plan_autocast(const Model& model, const RangesFile& ranges, const AutocastOptions& options);

} // namespace lathe
