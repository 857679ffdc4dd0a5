#include "passes/narrow_floats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "passes/passes.hpp"
#include "passes/write_casts.hpp"
#include "support/half.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

constexpr float largest_half = 65504.0F;

constexpr std::array<std::string_view, 5> product_ops{"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum"};
constexpr std::array<std::string_view, 36> pointwise_ops{"Abs",           "Add",
                                                         "AveragePool",   "Ceil",
                                                         "Clip",          "Div",
                                                         "Elu",           "Equal",
                                                         "Erf",           "Floor",
                                                         "Gelu",          "Greater",
                                                         "Less",          "GlobalAveragePool",
                                                         "GlobalMaxPool", "GreaterOrEqual",
                                                         "HardSigmoid",   "HardSwish",
                                                         "LeakyRelu",     "LessOrEqual",
                                                         "Max",           "Min",
                                                         "Mish",          "Mul",
                                                         "Neg",           "PRelu",
                                                         "Relu",          "Round",
                                                         "Selu",          "Sigmoid",
                                                         "Sign",          "Sub",
                                                         "Tanh",          "ThresholdedRelu",
                                                         "Where",         "Sum"};
constexpr std::array<std::string_view, 19> moving_ops{
    "Concat",   "DepthToSpace", "Expand", "Flatten",   "Gather",   "GatherElements", "GatherND",
    "Identity", "MaxPool",      "Pad",    "Reshape",   "Resize",   "Slice",          "SpaceToDepth",
    "Split",    "Squeeze",      "Tile",   "Transpose", "Unsqueeze"};

template <std::size_t n>
bool in(const std::array<std::string_view, n>& list, const Node& node) {
    return node.domain.empty() && std::ranges::find(list, node.op_type) != list.end();
}

/// What a mask of attention scores means survives clamping in these.
bool takes_masks(const Node& node) { return node.is("Add") || node.is("Where") || in(moving_ops, node); }

/// Inputs whose type does not follow the node's: Resize's region and scales, scales of Q/DQ.
bool keeps_float(const Node& node, std::size_t input) {
    if (node.is("Resize")) return input == 1 || input == 2;
    if (node.is("QuantizeLinear") || node.is("DequantizeLinear")) return input == 1;
    return false;
}

/// Chooses for every node by what it does.
class Choice {
public:
    Choice(const Graph& graph, DataType low) : graph_(graph), low_(low) {}

    Result<std::vector<FloatForm>> run() {
        LATHE_CHECK(find_floats());
        for (const auto& node : graph_.nodes)
            forms_.push_back(form_of(*node));
        settle_dequantize();
        count();
        return std::move(forms_);
    }
    NarrowReport& report() { return report_; }

private:
    bool is_float(const std::string& value) const { return floats_.contains(value); }

    Result<void> find_floats() {
        const auto note = [&](const std::string& value) -> Result<void> {
            if (value.empty()) return {};
            const auto info = graph_.info(value);
            if (!info || (info->type == DataType::undefined && info->opaque_type.empty())) {
                return Error{ErrorCode::unsupported, "the type of this value is not known", value,
                             "simplify the model first: lathe simplify"};
            }
            if (info->type == DataType::float32) floats_.insert(value);
            return {};
        };
        for (const auto& input : graph_.inputs)
            LATHE_CHECK(note(input.name));
        for (const auto& entry : graph_.initializers)
            LATHE_CHECK(note(entry.first));
        for (const auto& node : graph_.nodes) {
            for (const auto& output : node->outputs)
                LATHE_CHECK(note(output));
        }
        return {};
    }

    /// A constant that this precision cannot hold; empty if all can be held.
    std::string misfit(const Node& node) const {
        if (low_ != DataType::float16) return "";
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const Tensor* constant = graph_.constant(node.input(i));
            if (constant == nullptr || constant->type() != DataType::float32 || keeps_float(node, i)) continue;
            const auto values = constant->values<float>();
            if (takes_masks(node) && clamped_masks(values, low_)) continue;
            const bool scalar = values.size() == 1;
            for (const float value : values) {
                const bool large = std::isfinite(value) && std::abs(value) > largest_half;
                const bool vanishes = scalar && value != 0.0F && float_from_half(half_from_float(value)) == 0.0F;
                if (large || vanishes) return node.input(i) + " holds " + std::to_string(value);
            }
        }
        return "";
    }

    bool reads_high(const Node& node, bool all_inputs) const {
        const std::size_t count = all_inputs ? node.inputs.size() : std::min<std::size_t>(1, node.inputs.size());
        for (std::size_t i = 0; i < count; ++i) {
            if (high_.contains(node.input(i))) return true;
        }
        return false;
    }

    bool touches_floats(const Node& node) const {
        const auto is = [&](const std::string& value) { return is_float(value); };
        return std::ranges::any_of(node.inputs, is) || std::ranges::any_of(node.outputs, is);
    }

    FloatForm form_of(const Node& node) {
        if (!touches_floats(node)) return FloatForm::as_written;
        const bool cast_away = node.is("Cast") && is_float(node.input(0)) && !is_float(node.output(0));
        if (node.is("QuantizeLinear") || cast_away || node.is("Shape") || node.is("Size")) return FloatForm::as_written;
        FloatForm form = FloatForm::full;
        // ONNX has no Einsum of bfloat16, in any opset.
        const bool is_product = in(product_ops, node) && !(node.is("Einsum") && low_ == DataType::bfloat16);
        if (node.is("DequantizeLinear") || is_product) {
            form = FloatForm::half;
        } else if (in(pointwise_ops, node)) {
            form = reads_high(node, true) ? FloatForm::full : FloatForm::half;
        } else if (in(moving_ops, node)) {
            form = reads_high(node, node.is("Concat")) ? FloatForm::full : FloatForm::half;
        }
        if (form == FloatForm::half) {
            if (const std::string why = misfit(node); !why.empty()) {
                report_.kept_for_range.push_back(node.label() + ": " + why);
                form = FloatForm::full;
            }
        }
        if (form == FloatForm::full) {
            for (const auto& output : node.outputs) {
                if (is_float(output)) high_.insert(output);
            }
        }
        return form;
    }

    /// A DequantizeLinear that is read in float32 alone gives float32.
    void settle_dequantize() {
        std::unordered_map<std::string, bool> read_low;
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            for (const auto& input : graph_.nodes[i]->inputs)
                read_low[input] = read_low[input] || forms_[i] != FloatForm::full;
        }
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = *graph_.nodes[i];
            if (node.is("DequantizeLinear") && forms_[i] == FloatForm::half && !read_low[node.output(0)])
                forms_[i] = FloatForm::full;
        }
    }

    void count() {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            if (forms_[i] == FloatForm::half) ++report_.low_nodes;
            if (forms_[i] == FloatForm::full && touches_floats(*graph_.nodes[i]))
                ++report_.kept_ops[graph_.nodes[i]->op_type];
        }
    }

    const Graph& graph_;
    DataType low_;
    NarrowReport report_;
    std::unordered_set<std::string> floats_; ///< values that the model has in float32
    std::unordered_set<std::string> high_;   ///< computed in float32
    std::vector<FloatForm> forms_;
};

} // namespace

bool has_quantization(const Graph& graph) {
    return std::ranges::any_of(
        graph.nodes, [](const auto& node) { return node->is("QuantizeLinear") || node->is("DequantizeLinear"); });
}

Result<NarrowReport> narrow_floats(Model& model, DataType low) {
    if (low != DataType::float16 && low != DataType::bfloat16) {
        return Error{ErrorCode::invalid_argument, "narrow_floats writes float16 or bfloat16, not " + to_string(low), "",
                     ""};
    }
    PassContext context;
    context.opset = model.opset();
    const Pass constants{"constant-nodes", "", passes::constant_nodes};
    LATHE_CHECK(apply_pass(constants, model.graph, context));
    if (has_quantization(model.graph) && model.opset() < typed_quantization_opset) {
        return Error{ErrorCode::unsupported,
                     "Q/DQ with " + to_string(low) + " and float32 scales needs opset " +
                         std::to_string(typed_quantization_opset) + ", the model has " + std::to_string(model.opset()),
                     "", "convert it first"};
    }
    Choice choice(model.graph, low);
    CastRequest request;
    request.half = low;
    LATHE_TRY(request.forms, choice.run());
    request.follows = [](const Node& node, std::size_t input) { return !keeps_float(node, input); };
    LATHE_TRY(CastModel made, write_casts(std::move(model), request));
    model = std::move(made.model);
    choice.report().casts = made.casts;
    choice.report().clamped = std::move(made.clamped);
    return std::move(choice.report());
}

} // namespace lathe
