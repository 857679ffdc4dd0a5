#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/reason.hpp"
#include "quantize/target.hpp"
#include "support/json.hpp"

namespace lathe {

enum class EdgeRole { activation, weight, bias };

/// Input `input` of node `node`, by position in graph.nodes: names need not be unique or present.
struct Edge {
    std::size_t node = 0;
    std::size_t input = 0;
    bool operator==(const Edge&) const = default;
    auto operator<=>(const Edge&) const = default; // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads the default
};

/// What was decided for one edge, and why.
struct EdgeDecision {
    Edge edge;
    std::string node; ///< Node::label()
    std::string op_type;
    std::string tensor;
    EdgeRole role = EdgeRole::activation;
    Reason reason = Reason::op_stays_float;
    std::string detail; ///< numbers or names behind the reason; may be empty
    /// Its tensor's range is all that was seen, whatever the estimator says (ScaleGroup::whole_range).
    bool whole_range = false;

    bool quantized() const { return is_quantized(reason); }
};

/// A tensor that gets a QuantizeLinear/DequantizeLinear pair.
struct QuantizedTensor {
    std::string name;
    std::size_t group = 0;     ///< tensors of a group share scale and zero point
    std::vector<Edge> readers; ///< they read the pair; all others read the tensor itself
};

/// One scale and zero point.
struct ScaleGroup {
    std::vector<std::string> ranges; ///< tensors whose calibrated ranges are united
    /// A term of a residual sum: what is clipped there is missing from the stream for good, so all that was seen must
    /// fit. ResNet-50, mse: mean KL against float 0.0014 instead of 0.0019, agreement 98.1 instead of 97.5 %.
    bool whole_range = false;
    /// Never negative: -128..127 stand for 0..high, zero point -128 (TargetProfile::zero_point_from_zero).
    bool from_zero = false;
};

/// A constant that becomes int8 with a DequantizeLinear.
struct QuantizedWeight {
    std::string value;                ///< as the readers name it: an initializer, or the end of a chain of constants
    std::optional<std::int64_t> axis; ///< of the output channels; absent: no one axis is theirs, and one scale for all
    std::vector<Edge> readers;
    /// Of the input channels, of which a CPU without VNNI adds 2i and 2i + 1 first; absent: it may pair others.
    std::optional<std::int64_t> inputs;
};

struct PlacementOptions {
    /// Node name, op type, or regular expression that matches a whole node name. One that matches nothing is an error.
    std::vector<std::string> exclude;
    /// Positions of nodes that stay in float because a range is not known (Reason::range_missing).
    std::set<std::size_t> unranged = {};
    /// The same because int8 would be too noisy there (Reason::too_noisy), and what is to be said of each.
    std::map<std::size_t, std::string> noisy = {};
    /// Positions of Concats whose inputs keep scales of their own (Reason::unlike_parts).
    std::set<std::size_t> unlike = {};
    /// In place of the target's own; see with_formats.
    std::optional<WeightGranularity> weights = {};
    std::optional<ActivationScheme> activations = {};
};

/// Where Q/DQ goes. Refers to the model it was made from by node positions.
struct QuantizationPlan {
    Target target = Target::openvino;
    NumberFormat activations; ///< of every group but those from zero (ScaleGroup::from_zero)
    WeightGranularity granularity = WeightGranularity::per_channel; ///< of weights
    std::vector<EdgeDecision> decisions;                            ///< in graph order
    std::vector<QuantizedTensor> tensors;
    std::vector<ScaleGroup> groups;
    std::vector<QuantizedWeight> weights;
    std::size_t quantized_nodes = 0;  ///< Conv, ConvTranspose, Gemm, MatMul in int8
    std::size_t heavy_nodes = 0;      ///< all of them
    std::vector<std::string> remarks; ///< what would make the result better (BatchNormalization not folded, ...)
};

/// Decide for every edge of the top graph. The model must be float; Q/DQ already there is invalid_argument.
/// Nothing to quantise is not an error: the plan is then empty and the decisions say why. unsupported: with_formats.
Result<QuantizationPlan> plan_quantization(const Model& model, const TargetProfile& profile,
                                           const PlacementOptions& options = {});

/// Tensors whose ranges quantisation may ask for: graph inputs and node outputs, in graph order.
/// For one target, or (superset) for all of them. Empty where planning fails.
std::vector<std::string> quantizable_tensors(const Model& model, const TargetProfile& profile);
std::vector<std::string> quantizable_tensors(const Model& model);
/// Those of which some target keeps the whole range (ScaleGroup::whole_range). Empty where planning fails.
std::set<std::string> whole_range_tensors(const Model& model);

/// [{"node","op_type","input","tensor","role","quantized","reason","explanation","whole_range","detail"}, ...], as the
/// report has it.
Json to_json(const std::vector<EdgeDecision>& decisions);

} // namespace lathe
