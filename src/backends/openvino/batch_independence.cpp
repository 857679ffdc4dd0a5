#include "backends/openvino/batch_independence.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lathe::openvino {

namespace {

const std::set<std::string, std::less<>> elementwise{
    "Abs",         "Acos",        "Acosh",    "Add",      "And",
    "Asin",        "Asinh",       "Atan",     "Atanh",    "BitShift",
    "Cast",        "Ceil",        "Celu",     "Clip",     "Cos",
    "Cosh",        "Div",         "Elu",      "Equal",    "Erf",
    "Exp",         "Floor",       "Gelu",     "Greater",  "GreaterOrEqual",
    "HardSigmoid", "HardSwish",   "Identity", "IsNaN",    "LeakyRelu",
    "Less",        "LessOrEqual", "Log",      "Max",      "Mean",
    "Min",         "Mish",        "Mod",      "Mul",      "Neg",
    "Not",         "Or",          "PRelu",    "Pow",      "Reciprocal",
    "Relu",        "Round",       "Selu",     "Sigmoid",  "Sign",
    "Sin",         "Sinh",        "Softplus", "Softsign", "Sqrt",
    "Sub",         "Sum",         "Tan",      "Tanh",     "ThresholdedRelu",
    "Where",       "Xor",         "Swish"};

// Axis 0 of the first input is the sample; the other inputs must be constant.
const std::set<std::string, std::less<>> sample_wise{"Conv",
                                                     "ConvTranspose",
                                                     "MaxPool",
                                                     "AveragePool",
                                                     "LpPool",
                                                     "GlobalAveragePool",
                                                     "GlobalMaxPool",
                                                     "BatchNormalization",
                                                     "InstanceNormalization",
                                                     "GroupNormalization",
                                                     "LRN",
                                                     "DepthToSpace",
                                                     "SpaceToDepth",
                                                     "Dropout"};

const std::set<std::string, std::less<>> reductions{"ReduceMean",   "ReduceSum",      "ReduceMax", "ReduceMin",
                                                    "ReduceProd",   "ReduceL1",       "ReduceL2",  "ReduceLogSumExp",
                                                    "ReduceLogSum", "ReduceSumSquare"};

class Analysis {
public:
    explicit Analysis(const Model& model) : model_(model), graph_(model.graph) {}

    BatchIndependence run() {
        if (graph_.inputs.empty()) return {false, "the model has no input"};
        for (const auto& input : graph_.inputs) {
            if (graph_.initializer(input.name) != nullptr) continue;
            if (!input.dims || input.dims->empty()) return {false, "input " + input.name + " has no batch axis"};
            batched_.insert(input.name);
        }
        for (const auto& node : graph_.nodes) {
            if (!node->is("Constant")) continue;
            const Attribute* value = node->attribute("value");
            const Tensor* tensor = value == nullptr ? nullptr : std::get_if<Tensor>(&value->value);
            if (tensor != nullptr) constants_[node->output(0)] = tensor;
        }
        for (const auto& node : graph_.nodes) {
            if (const auto sizes = sizes_from(*node)) {
                sizes_[node->output(0)] = *sizes;
                continue;
            }
            const bool reads_sample = std::any_of(node->inputs.begin(), node->inputs.end(),
                                                  [&](const std::string& name) { return batched_.contains(name); });
            if (has_subgraph(*node)) return {false, node->label() + " holds a subgraph"};
            const bool reads_sizes = std::any_of(node->inputs.begin(), node->inputs.end(),
                                                 [&](const std::string& name) { return sizes_.contains(name); });
            if (!reads_sample && !reads_sizes) {
                if (is_random(*node)) return {false, node->label() + " is random"};
                continue; // constant for every sample
            }
            if (!keeps_samples_apart(*node)) {
                return {false, node->label() + " (" + node->op_type + ") may mix samples of a batch"};
            }
            batched_.insert(node->outputs.begin(), node->outputs.end());
        }
        for (const auto& output : graph_.outputs) {
            if (!batched_.contains(output.name)) return {false, "output " + output.name + " has no batch axis"};
        }
        return {true, ""};
    }

private:
    static bool has_subgraph(const Node& node) {
        return std::any_of(node.attributes.begin(), node.attributes.end(), [](const Attribute& attribute) {
            return std::holds_alternative<GraphBox>(attribute.value) ||
                   std::holds_alternative<std::vector<GraphBox>>(attribute.value);
        });
    }
    static bool is_random(const Node& node) { return node.op_type.starts_with("Random") || node.is("Multinomial"); }

    /// An initializer, or the value of a Constant node.
    const Tensor* constant(const std::string& name) const {
        if (const Tensor* tensor = graph_.constant(name)) return tensor;
        const auto found = constants_.find(name);
        return found == constants_.end() ? nullptr : found->second;
    }

    bool batched(const std::string& name) const { return batched_.contains(name); }

    std::optional<std::size_t> rank(const std::string& name) const {
        const auto info = graph_.info(name);
        if (!info || !info->dims) return std::nullopt;
        return info->dims->size();
    }

    /// A size of a batched value other than axis 0, or of a constant; nothing if not known.
    std::optional<std::int64_t> size_at(const std::string& name, std::size_t axis) const {
        const auto info = graph_.info(name);
        if (!info || !info->dims || axis >= info->dims->size()) return std::nullopt;
        return (*info->dims)[axis].size;
    }

    bool rest_constant(const Node& node, std::size_t from) const {
        for (std::size_t i = from; i < node.inputs.size(); ++i) {
            if (batched(node.inputs[i])) return false;
        }
        return true;
    }

    /// Sizes computed from the shape of a batched value ("flatten" as exporters write it: Shape, Gather, Concat,
    /// Reshape). An entry is a number, the batch size, or not known.
    using Sizes = std::vector<std::int64_t>;
    static constexpr std::int64_t batch_entry = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t unknown_entry = batch_entry + 1;

    std::optional<Sizes> known_sizes(const std::string& name) const {
        if (const auto found = sizes_.find(name); found != sizes_.end()) return found->second;
        const Tensor* tensor = constant(name);
        const bool integer = tensor != nullptr && tensor->type() == DataType::int64 && tensor->shape().size() <= 1;
        return integer ? std::optional<Sizes>(tensor->to_int64s()) : std::nullopt;
    }

    /// The sizes this node computes, if it is part of such a chain.
    std::optional<Sizes> sizes_from(const Node& node) const {
        if (!node.domain.empty() || node.outputs.size() != 1) return std::nullopt;
        if (node.op_type == "Shape" && batched(node.input(0))) {
            const auto info = graph_.info(node.input(0));
            if (!info || !info->dims || node.attribute("start") != nullptr || node.attribute("end") != nullptr) {
                return std::nullopt;
            }
            Sizes sizes;
            for (const auto& dim : *info->dims)
                sizes.push_back(sizes.empty() ? batch_entry : dim.size.value_or(unknown_entry));
            return sizes;
        }
        const bool reads_sizes = std::any_of(node.inputs.begin(), node.inputs.end(),
                                             [&](const std::string& name) { return sizes_.contains(name); });
        if (!reads_sizes) return std::nullopt;
        if (node.op_type == "Cast" || node.op_type == "Identity" || node.op_type == "Unsqueeze" ||
            node.op_type == "Squeeze") {
            return known_sizes(node.input(0));
        }
        if (node.op_type == "Concat") {
            Sizes all;
            for (const auto& name : node.inputs) {
                const auto part = known_sizes(name);
                if (!part) return std::nullopt;
                all.insert(all.end(), part->begin(), part->end());
            }
            return all;
        }
        if (node.op_type != "Gather" && node.op_type != "Slice") return std::nullopt;
        const auto from = known_sizes(node.input(0));
        const Tensor* first = constant(node.input(1));
        if (!from || first == nullptr) return std::nullopt;
        Sizes picked;
        const auto count = static_cast<std::int64_t>(from->size());
        if (node.op_type == "Gather") {
            for (std::int64_t index : first->to_int64s()) {
                if (index < 0) index += count;
                if (index < 0 || index >= count) return std::nullopt;
                picked.push_back((*from)[static_cast<std::size_t>(index)]);
            }
            return picked;
        }
        const Tensor* last = constant(node.input(2));
        const auto steps = ints(node, "steps", 4);
        if (last == nullptr || first->count() != 1 || last->count() != 1 || (steps && *steps != Sizes{1})) {
            return std::nullopt;
        }
        std::int64_t begin = first->to_int64s().at(0);
        std::int64_t end = last->to_int64s().at(0);
        begin = std::clamp<std::int64_t>(begin < 0 ? begin + count : begin, 0, count);
        end = std::clamp<std::int64_t>(end < 0 ? end + count : end, begin, count);
        picked.assign(from->begin() + begin, from->begin() + end);
        return picked;
    }

    /// Only the first input is batched.
    bool first_only(const Node& node) const { return batched(node.input(0)) && rest_constant(node, 1); }

    /// The axis, counted from the front, is known not to be 0.
    bool not_axis_zero(std::int64_t axis, const std::string& value) const {
        if (axis > 0) return true;
        const auto value_rank = rank(value);
        return axis < 0 && value_rank && axis + static_cast<std::int64_t>(*value_rank) > 0;
    }

    /// Integers given as attribute or as constant input `index`.
    std::optional<std::vector<std::int64_t>> ints(const Node& node, const char* attribute, std::size_t index) const {
        if (node.attribute(attribute) != nullptr) return node.ints_or(attribute, {});
        if (node.input(index).empty()) return std::nullopt;
        const Tensor* tensor = constant(node.input(index));
        if (tensor == nullptr) return std::nullopt;
        return tensor->to_int64s();
    }

    /// Broadcasting leaves axis 0 the sample: batched operands have the full rank, constants are 1 there or shorter.
    bool broadcast_keeps_batch(const Node& node) const {
        std::size_t full = 0;
        for (const auto& name : node.inputs) {
            if (name.empty()) continue;
            const auto value_rank = rank(name);
            if (!value_rank) return false;
            full = std::max(full, *value_rank);
        }
        for (const auto& name : node.inputs) {
            if (name.empty()) continue;
            const std::size_t value_rank = *rank(name);
            if (batched(name)) {
                if (value_rank != full) return false;
            } else if (value_rank == full && full > 0 && size_at(name, 0) != std::int64_t{1}) {
                return false;
            }
        }
        return full > 0;
    }

    bool matmul(const Node& node) const {
        const auto left = rank(node.input(0));
        const auto right = rank(node.input(1));
        if (!left || !right) return false;
        if (batched(node.input(0)) && batched(node.input(1))) return *left == *right && *left >= 3;
        if (batched(node.input(0)))
            return *left >= 2 && (*right <= 2 || (*right == *left && size_at(node.input(1), 0) == std::int64_t{1}));
        return *right >= 3 && *left <= 2;
    }

    bool reshape(const Node& node) const {
        if (!first_only(node) || node.int_or("allowzero", 0) != 0) return false;
        if (const auto sizes = sizes_.find(node.input(1)); sizes != sizes_.end()) {
            return !sizes->second.empty() && sizes->second.front() == batch_entry;
        }
        const auto target = ints(node, "shape", 1);
        if (!target || target->empty()) return false;
        if (target->front() == 0) return true;
        if (target->front() != -1) return false; // a batch size built in
        // -1 is the batch exactly if the other entries hold one sample.
        const auto info = graph_.info(node.input(0));
        if (!info || !info->dims) return false;
        std::int64_t sample = 1;
        for (std::size_t i = 1; i < info->dims->size(); ++i) {
            const auto size = (*info->dims)[i].size;
            if (!size) return false;
            sample *= *size;
        }
        std::int64_t wanted = 1;
        for (std::size_t i = 1; i < target->size(); ++i) {
            std::int64_t entry = (*target)[i];
            if (entry == 0) {
                const auto size = size_at(node.input(0), i);
                if (!size) return false;
                entry = *size;
            }
            wanted *= entry;
        }
        return wanted == sample;
    }

    bool axes_avoid_batch(const Node& node, std::size_t index) const {
        const auto axes = ints(node, "axes", index);
        return axes && !axes->empty() && std::all_of(axes->begin(), axes->end(), [&](std::int64_t axis) {
                   return not_axis_zero(axis, node.input(0));
               });
    }

    bool leading_is(const Node& node, std::size_t index, double value) const {
        if (node.input(index).empty()) return true;
        const Tensor* tensor = constant(node.input(index));
        if (tensor == nullptr) return false;
        const std::vector<float> values = tensor->to_floats();
        return values.empty() || static_cast<double>(values.front()) == value;
    }

    bool quantize(const Node& node) const {
        if (!first_only(node)) return false;
        const auto scale_rank = rank(node.input(1));
        if (!scale_rank) return false;
        const auto scale = constant(node.input(1));
        if (scale != nullptr && scale->count() == 1) return true;
        return node.int_or("block_size", 0) == 0 && not_axis_zero(node.int_or("axis", 1), node.input(0));
    }

    bool keeps_samples_apart(const Node& node) const {
        if (!node.domain.empty()) return false;
        const std::string& op = node.op_type;
        const bool takes_sizes = op == "Reshape" || op == "Expand";
        if (!takes_sizes && std::any_of(node.inputs.begin(), node.inputs.end(),
                                        [&](const std::string& name) { return sizes_.contains(name); })) {
            return false; // computes with the batch size
        }
        if (elementwise.contains(op)) return node.inputs.size() == 1 || broadcast_keeps_batch(node);
        if (node.is("BatchNormalization") && (node.int_or("training_mode", 0) != 0 || node.outputs.size() > 1)) {
            return false;
        }
        if (node.is("Dropout") && node.inputs.size() > 2 && !node.inputs[2].empty()) return false;
        if (sample_wise.contains(op)) return first_only(node);
        if (reductions.contains(op)) return first_only(node) && axes_avoid_batch(node, 1);
        if (op == "MatMul") return matmul(node);
        if (op == "Gemm") {
            const auto bias_rank = node.input(2).empty() ? std::optional<std::size_t>{0} : rank(node.input(2));
            const bool bias_broadcasts = bias_rank && (*bias_rank < 2 || size_at(node.input(2), 0) == std::int64_t{1});
            return first_only(node) && node.int_or("transA", 0) == 0 && bias_broadcasts;
        }
        if (op == "Expand") {
            // A constant (a class token) repeated for each sample.
            const auto sizes = sizes_.find(node.input(1));
            const auto value_rank = rank(node.input(0));
            return !batched(node.input(0)) && sizes != sizes_.end() && value_rank &&
                   *value_rank <= sizes->second.size() && sizes->second.front() == batch_entry;
        }
        if (op == "Flatten") return first_only(node) && node.int_or("axis", 1) == 1;
        if (op == "Reshape") return reshape(node);
        if (op == "Transpose") {
            const auto order = node.ints_or("perm", {});
            return !order.empty() && order.front() == 0;
        }
        if (op == "Softmax" || op == "LogSoftmax") {
            // Before opset 13 the axis splits the shape into two: the default 1 keeps samples apart as well.
            return not_axis_zero(node.int_or("axis", model_.opset() >= 13 ? -1 : 1), node.input(0));
        }
        if (op == "LayerNormalization" || op == "RMSNormalization") {
            return first_only(node) && not_axis_zero(node.int_or("axis", -1), node.input(0));
        }
        if (op == "ArgMax" || op == "ArgMin") return not_axis_zero(node.int_or("axis", 0), node.input(0));
        if (op == "Concat") {
            return std::all_of(node.inputs.begin(), node.inputs.end(),
                               [&](const auto& name) { return batched(name); }) &&
                   not_axis_zero(node.int_or("axis", 0), node.input(0));
        }
        if (op == "Split") return first_only(node) && not_axis_zero(node.int_or("axis", 0), node.input(0));
        if (op == "Squeeze") return first_only(node) && axes_avoid_batch(node, 1);
        if (op == "Unsqueeze") {
            const auto axes = ints(node, "axes", 1);
            return first_only(node) && axes &&
                   std::all_of(axes->begin(), axes->end(), [](std::int64_t axis) { return axis > 0; });
        }
        if (op == "Slice") {
            const auto axes = ints(node, "axes", 3);
            return first_only(node) && axes && axes_avoid_batch(node, 3);
        }
        if (op == "Gather") {
            if (batched(node.input(0))) {
                return rest_constant(node, 1) && not_axis_zero(node.int_or("axis", 0), node.input(0));
            }
            return node.int_or("axis", 0) == 0; // a table read by batched indices
        }
        if (op == "Pad") {
            const auto pads = ints(node, "pads", 1);
            if (!first_only(node) || !pads || !node.input(3).empty() || pads->size() < 2) return false;
            return pads->front() == 0 && (*pads)[pads->size() / 2] == 0;
        }
        if (op == "Resize") return first_only(node) && resize(node);
        if (op == "Upsample") return first_only(node) && leading_is(node, 1, 1.0);
        if (op == "QuantizeLinear" || op == "DequantizeLinear") return quantize(node);
        return false;
    }

    bool resize(const Node& node) const {
        if (node.attribute("axes") != nullptr) return axes_avoid_batch(node, 99);
        return node.input(3).empty() && !node.input(2).empty() && leading_is(node, 2, 1.0);
    }

    const Model& model_;
    const Graph& graph_;
    std::unordered_set<std::string> batched_;
    std::unordered_map<std::string, const Tensor*> constants_;
    std::unordered_map<std::string, Sizes> sizes_;
};

} // namespace

BatchIndependence batch_independence(const Model& model) { return Analysis(model).run(); }

} // namespace lathe::openvino
