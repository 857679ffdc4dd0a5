#include "passes/narrow_floats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/subgraphs.hpp"
#include "passes/passes.hpp"
#include "support/half.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

constexpr float largest_half = 65504.0F;
constexpr std::int64_t typed_quantization_opset = 23;

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

/// What a node computes in. `as_is`: it takes any type (QuantizeLinear, Cast from a float).
enum class Level { high, low, as_is };

/// Inputs whose type does not follow the node's: Resize's region and scales, scales of Q/DQ.
bool keeps_float(const Node& node, std::size_t input) {
    if (node.is("Resize")) return input == 1 || input == 2;
    if (node.is("QuantizeLinear") || node.is("DequantizeLinear")) return input == 1;
    return false;
}

class Narrowing {
public:
    Narrowing(Model& model, DataType low) : graph_(model.graph), low_(low) {}

    Result<NarrowReport> run() {
        LATHE_CHECK(find_floats());
        for (const auto& node : graph_.nodes)
            levels_.push_back(level_of(*node));
        settle_dequantize();
        rewrite();
        remove_unused_initializers();
        return std::move(report_);
    }

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
            for (const auto& name : captured_names(*node))
                kept_names_.insert(name);
        }
        for (const auto& output : graph_.outputs)
            kept_names_.insert(output.name);
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

    Level level_of(const Node& node) {
        if (!touches_floats(node)) return Level::as_is;
        const bool cast_away = node.is("Cast") && is_float(node.input(0)) && !is_float(node.output(0));
        if (node.is("QuantizeLinear") || cast_away || node.is("Shape") || node.is("Size")) return Level::as_is;
        Level level = Level::high;
        if (node.is("DequantizeLinear") || in(product_ops, node)) {
            level = Level::low;
        } else if (in(pointwise_ops, node)) {
            level = reads_high(node, true) ? Level::high : Level::low;
        } else if (in(moving_ops, node)) {
            level = reads_high(node, node.is("Concat")) ? Level::high : Level::low;
        }
        if (level == Level::low) {
            if (const std::string why = misfit(node); !why.empty()) {
                report_.kept_for_range.push_back(node.label() + ": " + why);
                level = Level::high;
            }
        }
        if (level == Level::high) {
            for (const auto& output : node.outputs) {
                if (is_float(output)) high_.insert(output);
            }
        }
        return level;
    }

    /// A DequantizeLinear that is read in float32 alone gives float32.
    void settle_dequantize() {
        std::unordered_map<std::string, bool> read_low;
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            for (const auto& input : graph_.nodes[i]->inputs)
                read_low[input] = read_low[input] || levels_[i] != Level::high;
        }
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = *graph_.nodes[i];
            if (node.is("DequantizeLinear") && levels_[i] == Level::low && !read_low[node.output(0)])
                levels_[i] = Level::high;
        }
    }

    Tensor to_low(const Tensor& tensor, std::string name) {
        std::span<const float> values = tensor.values<float>();
        const auto masks = clamped_masks(values, low_);
        if (masks) {
            values = *masks;
            report_.clamped.push_back(tensor.name);
        }
        std::vector<std::uint16_t> bits(values.size());
        std::ranges::transform(values, bits.begin(), [&](float value) {
            return low_ == DataType::float16 ? half_from_float(value) : bfloat16_from_float(value);
        });
        return Tensor::of<std::uint16_t>(std::move(name), low_, tensor.shape(), bits);
    }

    std::string cast(const std::string& value, DataType to) {
        const std::string name = graph_.unique_name(value + "_" + to_string(to));
        Node node;
        node.op_type = "Cast";
        node.name = name;
        node.inputs = {value};
        node.outputs = {name};
        node.set("to", static_cast<std::int64_t>(to));
        nodes_.push_back(std::make_unique<Node>(std::move(node)));
        return name;
    }

    /// Name of the value (by its name in the model) in the low precision.
    std::string low_name(const std::string& value) {
        if (const auto found = low_names_.find(value); found != low_names_.end()) return found->second;
        std::string name;
        if (const Tensor* constant = graph_.constant(value)) {
            name = graph_.unique_name(value + "_" + to_string(low_));
            graph_.initializers.emplace(name, to_low(*constant, name));
        } else {
            name = cast(value, low_);
        }
        return low_names_[value] = name;
    }

    /// Name of the value in float32.
    std::string float_name(const std::string& value) {
        const auto found = float_names_.find(value);
        if (found != float_names_.end()) return found->second;
        const auto low = low_names_.find(value);
        // What is not computed in the low precision is there in float32, under its own name.
        if (low == low_names_.end() || !computed_low_.contains(value)) return value;
        return float_names_[value] = cast(low->second, DataType::float32);
    }

    void rewrite_low(Node& node) {
        ++report_.low_nodes;
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (!node.inputs[i].empty() && is_float(node.inputs[i]) && !keeps_float(node, i))
                node.inputs[i] = low_name(node.inputs[i]);
        }
        if (node.is("DequantizeLinear")) node.set("output_dtype", static_cast<std::int64_t>(low_));
        for (auto& output : node.outputs) {
            if (output.empty() || !is_float(output)) continue;
            const std::string original = output;
            computed_low_.insert(original);
            if (kept_names_.contains(original)) output = graph_.unique_name(original + "_" + to_string(low_));
            low_names_[original] = output;
            if (const auto info = graph_.value_infos.find(original); info != graph_.value_infos.end()) {
                ValueInfo changed = info->second;
                changed.name = output;
                changed.type = low_;
                graph_.value_infos.insert_or_assign(output, std::move(changed));
            }
        }
    }

    void rewrite_high(Node& node) {
        if (touches_floats(node)) ++report_.kept_ops[node.op_type];
        for (auto& input : node.inputs) {
            if (!input.empty() && is_float(input)) input = float_name(input);
        }
    }

    /// QuantizeLinear and the like read the form that is there.
    void rewrite_as_is(Node& node) {
        for (auto& input : node.inputs) {
            if (computed_low_.contains(input)) input = low_names_.at(input);
        }
    }

    void rewrite() {
        std::vector<std::unique_ptr<Node>> old = std::move(graph_.nodes);
        graph_.nodes.clear();
        for (std::size_t i = 0; i < old.size(); ++i) {
            Node& node = *old[i];
            const std::vector<std::string> outputs = node.outputs;
            switch (levels_[i]) {
                case Level::low: rewrite_low(node); break;
                case Level::high: rewrite_high(node); break;
                case Level::as_is: rewrite_as_is(node); break;
            }
            nodes_.push_back(std::move(old[i]));
            for (const auto& output : outputs) {
                // Graph outputs and what subgraphs read keep name and type.
                if (!computed_low_.contains(output) || !kept_names_.contains(output)) continue;
                cast(low_names_.at(output), DataType::float32);
                nodes_.back()->outputs[0] = output;
                float_names_[output] = output;
            }
        }
        graph_.nodes = std::move(nodes_);
    }

    void remove_unused_initializers() {
        std::unordered_set<std::string> read;
        for (const auto& node : graph_.nodes) {
            read.insert(node->inputs.begin(), node->inputs.end());
            for (const auto& name : captured_names(*node))
                read.insert(name);
        }
        std::erase_if(graph_.initializers, [&](const auto& entry) {
            return is_float(entry.first) && !read.contains(entry.first) && !graph_.is_output(entry.first) &&
                   graph_.find_input(entry.first) == nullptr;
        });
    }

    Graph& graph_;
    DataType low_;
    NarrowReport report_;
    std::unordered_set<std::string> floats_;     ///< values that the model has in float32
    std::unordered_set<std::string> kept_names_; ///< must exist in float32 under their own name
    std::unordered_set<std::string> high_;       ///< computed in float32
    std::unordered_set<std::string> computed_low_;
    std::vector<Level> levels_;
    std::unordered_map<std::string, std::string> low_names_, float_names_; ///< by the name in the model
    std::vector<std::unique_ptr<Node>> nodes_;
};

} // namespace

Result<NarrowReport> narrow_floats(Model& model, DataType low) {
    if (low != DataType::float16 && low != DataType::bfloat16) {
        return Error{ErrorCode::invalid_argument, "narrow_floats writes float16 or bfloat16, not " + to_string(low), "",
                     ""};
    }
    PassContext context;
    context.opset = model.opset();
    const Pass constants{"constant-nodes", "", passes::constant_nodes};
    LATHE_CHECK(apply_pass(constants, model.graph, context));
    const bool quantized = std::ranges::any_of(
        model.graph.nodes, [](const auto& node) { return node->is("QuantizeLinear") || node->is("DequantizeLinear"); });
    if (quantized && model.opset() < typed_quantization_opset) {
        return Error{ErrorCode::unsupported,
                     "Q/DQ with " + to_string(low) + " and float32 scales needs opset " +
                         std::to_string(typed_quantization_opset) + ", the model has " + std::to_string(model.opset()),
                     "", "convert it first"};
    }
    return Narrowing(model, low).run();
}

} // namespace lathe
