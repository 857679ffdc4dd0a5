#include "quantize/lint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "quantize/edges.hpp"
#include "quantize/ops.hpp"
#include "quantize/pairs.hpp"

namespace lathe {
namespace {

bool is_q(const Node& node) { return node.op_type == "QuantizeLinear"; }
bool is_dq(const Node& node) { return node.op_type == "DequantizeLinear"; }

/// NVIDIA's parsers: symmetric int8, biases in float.
bool is_nvidia(const TargetProfile& profile) { return profile.activations.symmetric; }

class Linter {
public:
    Linter(const Graph& graph, const TargetProfile& profile)
        : graph_(graph), profile_(profile), index_(graph),
          sums_clip_(range_for_this_cpu(profile) != WeightRange::full) {}

    std::vector<LintFinding> run() {
        std::size_t pairs = 0;
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = *graph_.nodes[i];
            if (is_q(node) || is_dq(node)) {
                ++pairs;
                check_parameters(node);
                if (is_dq(node)) check_dequantize(node);
                if (is_q(node)) check_quantize(node);
            } else if (is_heavy(node)) {
                check_heavy(node);
            } else if (node.is("Add")) {
                check_add(node);
            } else if (node.is("Concat")) {
                check_concat(node);
            }
        }
        if (pairs == 0) {
            report("not_quantized", LintSeverity::error, graph_.name.empty() ? "graph" : graph_.name,
                   "the model has no QuantizeLinear or DequantizeLinear: it will run in float",
                   "quantise it: lathe quantize MODEL --ranges FILE --target " + std::string(profile_.name));
        }
        return std::move(findings_);
    }

private:
    void report(const char* rule, LintSeverity severity, std::string where, std::string why, std::string cure) {
        findings_.push_back({rule, severity, std::move(where), std::move(why), std::move(cure)});
    }

    const Node* producer(const std::string& value) const {
        const auto found = index_.producer(value);
        return found ? &index_.node(*found) : nullptr;
    }

    /// The DequantizeLinear that the value comes from, through reshaping ops.
    const Node* dequantize_behind(const std::string& value) const {
        std::string current = value;
        for (std::size_t steps = 0; steps <= graph_.nodes.size(); ++steps) {
            const Node* node = producer(current);
            if (node == nullptr) return nullptr;
            if (is_dq(*node)) return node;
            if (!is_pass_through(graph_, *node)) return nullptr;
            current = node->input(0);
        }
        return nullptr;
    }

    std::optional<Tensor> constant(const std::string& value) const {
        if (value.empty()) return std::nullopt;
        Constant resolved = resolve_constant(graph_, value);
        if (auto* tensor = std::get_if<Tensor>(&resolved)) return std::move(*tensor);
        return std::nullopt;
    }

    void check_parameters(const Node& node) {
        const std::string where = node.label();
        const auto scale = constant(node.input(1));
        if (!scale) {
            report("dynamic_scale", is_nvidia(profile_) ? LintSeverity::error : LintSeverity::warning, where,
                   "the scale '" + node.input(1) + "' is computed at run time, so that nothing can be fused around it",
                   "make the scale an initializer (lathe simplify folds constants)");
            return;
        }
        const std::vector<float> scales = scale->to_floats();
        for (const float value : scales) {
            if (std::isfinite(value) && value > 0.0F) continue;
            report("bad_scale", LintSeverity::error, where + ", scale " + node.input(1),
                   "a scale is " + std::to_string(value) + "; it must be a positive number",
                   "calibrate again; a tensor of zeros takes scale 1");
            break;
        }
        if (std::ranges::any_of(
                scales, [](float value) { return value > 0.0F && value < std::numeric_limits<float>::min(); })) {
            report("subnormal_scale", LintSeverity::error, where + ", scale " + node.input(1),
                   "a scale is a subnormal number, which runtimes flush to zero and then divide by",
                   "take 1.2e-38 or more; for a channel of zeros take 1");
        }
        // More than one scale on an activation.
        if (scales.size() > 1 && !index_.is_constant(node.input(0)) && (is_q(node) || !is_weight_path(node))) {
            report("per_channel_activation", is_nvidia(profile_) ? LintSeverity::error : LintSeverity::warning, where,
                   "an activation has " + std::to_string(scales.size()) +
                       " scales; int8 kernels need one for the whole tensor",
                   "calibrate per tensor; keep scales by channel for weights");
        }
        check_zero_point(node);
    }

    bool is_weight_path(const Node& node) const {
        const Node* before = producer(node.input(0));
        return before != nullptr && is_q(*before) && index_.is_constant(before->input(0));
    }

    void check_zero_point(const Node& node) {
        const auto zero = constant(node.input(2));
        // Without a zero point the type is that of DequantizeLinear's input, or uint8 for QuantizeLinear.
        DataType type = zero ? zero->type() : DataType::uint8;
        if (!zero && is_dq(node)) {
            const auto info = graph_.info(node.input(0));
            type = info ? info->type : DataType::undefined;
        }
        if (!zero && is_q(node)) {
            const auto given = static_cast<DataType>(node.int_or("output_dtype", 0));
            if (given != DataType::undefined) type = given;
        }
        if (!is_nvidia(profile_)) return;
        const std::string where = node.label();
        // The CUDA engine gives bytes with a zero point the symmetric scale of their range (write_symmetric_int8).
        const bool rewritten = profile_.target == Target::cuda && (type == DataType::uint8 || type == DataType::int8);
        const LintSeverity severity = rewritten ? LintSeverity::warning : LintSeverity::error;
        const std::string instead = rewritten ? ": it gets the symmetric scale of its range" : "";
        if (type == DataType::int32) return; // int32_bias says it
        if (type == DataType::uint8 || type == DataType::uint16 || type == DataType::int16) {
            report("unsigned_type", severity, where,
                   std::string(profile_.name) + " has int8 only, this is " + to_string(type) + instead,
                   "quantise for this target: symmetric int8 with zero point 0");
        }
        if (!zero) return;
        const std::vector<std::int64_t> values = zero->to_int64s();
        if (std::ranges::all_of(values, [](std::int64_t value) { return value == 0; })) return;
        const std::string cure = "quantise symmetrically: lathe quantize --target " + std::string(profile_.name);
        if (!profile_.zero_point_from_zero || index_.is_constant(node.input(0))) {
            report("asymmetric_zero_point", severity, where + ", zero point " + node.input(2),
                   std::string(profile_.name) +
                       (rewritten
                            ? " multiplies by weights without a zero point: they are rounded anew where they do not "
                              "fit without it"
                            : " refuses a zero point other than 0"),
                   cure);
        } else if (is_dq(node)) {
            for (const Edge& edge : index_.readers(node.output(0))) {
                const Node& reader = index_.node(edge.node);
                const bool product = reader.is("Gemm") || reader.is("MatMul") || reader.is("Add");
                if (product || (reader.is("Conv") && (is_unpadded(graph_, reader) || is_depthwise(graph_, reader))))
                    continue;
                report("asymmetric_zero_point", severity, where + ", zero point " + node.input(2),
                       reader.label() + " reads it; " + std::string(profile_.name) +
                           " takes a zero point other than 0 only in depthwise convolutions, others without "
                           "padding, matrix products and residual sums" +
                           instead,
                       cure);
                break;
            }
        }
    }

    void check_dequantize(const Node& node) {
        const bool constant_input = index_.is_constant(node.input(0));
        if (!constant_input) {
            const Node* before = producer(node.input(0));
            const bool integer = before != nullptr && is_pass_through(graph_, *before);
            if (before != nullptr && !is_q(*before) && !integer && before->domain.empty() &&
                before->op_type.find("Integer") == std::string::npos && before->op_type.find("QLinear") != 0) {
                report("dangling_dequantize", LintSeverity::warning, node.label(),
                       "it reads '" + node.input(0) + "', which is neither a constant nor quantised before",
                       "remove it, or put the QuantizeLinear in front");
            }
            return;
        }
        for (const Edge& edge : index_.readers(node.output(0))) {
            const Node& reader = index_.node(edge.node);
            const auto bias = bias_input(reader);
            if (!bias || *bias != edge.input) continue;
            if (profile_.target == Target::tensorrt) {
                report("int32_bias", LintSeverity::error, reader.label() + ", bias " + reader.input(*bias),
                       "the bias is a DequantizeLinear, which TensorRT's parser refuses", "leave biases in float32");
            } else if (profile_.target == Target::openvino || profile_.target == Target::cuda) {
                report("int32_bias", LintSeverity::note, reader.label() + ", bias " + reader.input(*bias),
                       "the bias is a DequantizeLinear; it is only converted back to float", "leave biases in float32");
            }
        }
    }

    void check_quantize(const Node& node) {
        const auto& readers = index_.readers(node.output(0));
        const bool output = index_.read_outside(node.output(0));
        if (readers.empty() && !output) {
            report("dangling_quantize", LintSeverity::warning, node.label(), "nobody reads what it computes",
                   "remove it (lathe simplify does)");
            return;
        }
        const bool dequantized = std::ranges::any_of(readers, [&](const Edge& edge) {
            const Node& reader = index_.node(edge.node);
            return is_dq(reader) || is_pass_through(graph_, reader) || !reader.domain.empty() ||
                   reader.op_type.find("Integer") != std::string::npos || reader.op_type.find("QLinear") == 0;
        });
        if (!dequantized && !output) {
            report("dangling_quantize", LintSeverity::error, node.label(), "no DequantizeLinear follows it",
                   "add the DequantizeLinear with the same scale and zero point");
        }
        if (index_.is_constant(node.input(0))) {
            report("weight_not_folded", is_nvidia(profile_) ? LintSeverity::note : LintSeverity::warning, node.label(),
                   "a constant is quantised at run time: the file holds float weights, four times as large",
                   "fold it into an int8 initializer (lathe simplify)");
        }
        for (const Edge& edge : readers) {
            const Node& reader = index_.node(edge.node);
            if (!is_dq(reader)) continue;
            const auto left = constant(node.input(1));
            const auto right = constant(reader.input(1));
            if (left && right && left->to_floats() != right->to_floats()) {
                report("pair_mismatch", LintSeverity::error, node.label() + " and " + reader.label(),
                       "the pair quantises and dequantises with different scales", "use one scale for both");
            }
        }
        check_between(node);
    }

    // Conv -> Q -> DQ -> Relu: the Relu can no longer be fused into the convolution.
    void check_between(const Node& node) {
        const Node* before = producer(node.input(0));
        if (before == nullptr || !is_heavy(*before)) return;
        for (const Edge& edge : index_.readers(node.output(0))) {
            const Node& pair = index_.node(edge.node);
            if (!is_dq(pair)) continue;
            for (const Edge& next : index_.readers(pair.output(0))) {
                const Node& reader = index_.node(next.node);
                const bool splits = is_fused_activation(reader) || reader.is("BatchNormalization");
                if (!splits) continue;
                report("breaks_fusion", LintSeverity::warning, node.label(),
                       "it stands between " + before->label() + " and " + reader.label() +
                           ", which would be one kernel",
                       "quantise after " + reader.op_type + " instead");
            }
        }
    }

    void check_overflow(const Node& node) {
        if (!sums_clip_ || !can_overflow(index_, node, profile_)) return;
        report("weights_overflow", LintSeverity::warning, node.label() + ", weight " + node.input(1),
               "this CPU has no VNNI: on large inputs two of its weights overflow a sum of 16 bits, which is clipped",
               "quantise on such a CPU, or with --weight-range pairs");
    }

    void check_heavy(const Node& node) {
        check_overflow(node);
        const bool left = dequantize_behind(node.input(0)) != nullptr;
        const Node* weight = dequantize_behind(node.input(1));
        if (!left && weight == nullptr) {
            report("float_layer", LintSeverity::warning, node.label(), "it is not quantised and runs in float",
                   "if that was not on purpose, quantise its input and its weights");
            return;
        }
        if (!left || weight == nullptr) {
            report("half_quantized", LintSeverity::warning, node.label(),
                   std::string("only its ") + (left ? "input" : "weight") +
                       " is quantised: int8 kernels need both, so it runs in float with the error of int8",
                   std::string("quantise its ") + (left ? "weight" : "input") + " too, or neither");
            return;
        }
        if (const auto info = graph_.info(weight->input(0)); info && info->type == DataType::uint8) {
            report("unsigned_weight", is_nvidia(profile_) ? LintSeverity::error : LintSeverity::warning,
                   node.label() + ", weight " + weight->input(0),
                   "the weights are uint8; the fast kernels multiply by int8 weights with zero point 0",
                   "quantise weights to symmetric int8");
        }
        if (const auto zero = constant(weight->input(2)); zero && !is_nvidia(profile_)) {
            if (std::ranges::any_of(zero->to_int64s(), [](std::int64_t value) { return value != 0; })) {
                report("asymmetric_weight", LintSeverity::warning, node.label() + ", weight " + weight->input(0),
                       "a zero point other than 0 on weights costs a correction for every output",
                       "quantise weights symmetrically");
            }
        }
    }

    void check_add(const Node& node) {
        if (node.inputs.size() != 2 || index_.is_constant(node.input(0)) || index_.is_constant(node.input(1))) return;
        if (!output_is_quantized(node)) return;
        const bool left = dequantize_behind(node.input(0)) != nullptr;
        const bool right = dequantize_behind(node.input(1)) != nullptr;
        if (!left && !right) {
            report("residual_in_float", LintSeverity::warning, node.label(),
                   "neither input of the residual Add is quantised though its output is: the skip is kept in float "
                   "and the sum is not fused in int8",
                   "quantise its skip input");
        } else if (profile_.residual == ResidualRule::both_inputs && !(left && right)) {
            report("residual_half_quantized", LintSeverity::warning, node.label(),
                   std::string(profile_.name) + " fuses the residual Add in int8 only with both inputs quantised",
                   "quantise its other input, " + node.input(left ? 1 : 0));
        }
    }

    bool output_is_quantized(const Node& node) const {
        std::string value = node.output(0);
        if (const auto only = index_.only_reader(value); only && is_fused_activation(index_.node(only->node))) {
            value = index_.node(only->node).output(0);
        }
        return std::ranges::any_of(index_.readers(value),
                                   [&](const Edge& edge) { return is_q(index_.node(edge.node)); });
    }

    void check_concat(const Node& node) {
        std::set<std::vector<float>> scales;
        for (const std::string& input : node.inputs) {
            const Node* pair = dequantize_behind(input);
            if (pair == nullptr) return;
            const auto scale = constant(pair->input(1));
            if (!scale) return;
            scales.insert(scale->to_floats());
        }
        if (scales.size() > 1) {
            report("concat_scales", LintSeverity::warning, node.label(),
                   "its inputs have " + std::to_string(scales.size()) +
                       " different scales, so that they are requantised instead of copied",
                   "give all inputs of the Concat one scale");
        }
    }

    const Graph& graph_;
    const TargetProfile& profile_;
    EdgeIndex index_;
    const bool sums_clip_; ///< this CPU adds two products in 16 bits
    std::vector<LintFinding> findings_;
};

} // namespace

const char* to_string(LintSeverity severity) {
    switch (severity) {
        case LintSeverity::error: return "error";
        case LintSeverity::warning: return "warning";
        case LintSeverity::note: return "note";
    }
    return "note";
}

std::vector<LintFinding> lint_quantization(const Model& model, const TargetProfile& profile) {
    return Linter(model.graph, profile).run();
}

Json to_json(const std::vector<LintFinding>& findings) {
    Json array = Json::array();
    for (const LintFinding& each : findings) {
        array.push_back({{"rule", each.rule},
                         {"severity", to_string(each.severity)},
                         {"where", each.where},
                         {"why", each.why},
                         {"cure", each.cure}});
    }
    return array;
}

} // namespace lathe
