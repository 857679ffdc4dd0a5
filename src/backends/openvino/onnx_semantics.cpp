#include "backends/openvino/onnx_semantics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "backends/openvino/moved_scales.hpp"
#include "backends/openvino/quantised_semantics.hpp"
#include "backends/openvino/reductions.hpp"
#include "backends/openvino/slices.hpp"
#include "backends/openvino/windows.hpp"
#include "graph/subgraphs.hpp"
#include "passes/rewrite.hpp"
#include "passes/written_reductions.hpp"

namespace lathe::openvino {

namespace {

Node cast(const std::string& input, DataType to, std::string output) {
    Node node = made("Cast", {input}, std::move(output));
    node.set("to", static_cast<std::int64_t>(to));
    return node;
}

//  x ──▶ Softmax(axis) ──▶ y   ==>   x ──▶ Flatten(axis) ──▶ Softmax(1) ──▶ Reshape ──▶ y
//                                     └───────────────────── Shape ────────────┘
// Before opset 13 all axes from `axis` on are one distribution.
Nodes coerced_softmax(Graph& graph, const Node& node) {
    const auto info = graph.info(node.input(0));
    const std::int64_t axis = node.int_or("axis", 1);
    if (axis == -1) return {};
    if (info && info->dims) {
        const auto rank = static_cast<std::int64_t>(info->dims->size());
        if ((axis < 0 ? axis + rank : axis) == rank - 1) return {};
    }
    const std::string& stem = node.output(0);
    const std::string rows = graph.unique_name(stem + "_rows"), shares = graph.unique_name(stem + "_shares"),
                      shape = graph.unique_name(stem + "_shape");
    Node flatten = made("Flatten", {node.input(0)}, rows);
    flatten.set("axis", axis);
    Node softmax = node;
    softmax.inputs = {rows};
    softmax.outputs = {shares};
    softmax.set("axis", std::int64_t{1});
    return {std::move(flatten), std::move(softmax), made("Shape", {node.input(0)}, shape),
            made("Reshape", {shares, shape}, stem)};
}

//  a, b (int8) ──▶ Add ──▶ y
//    ==>   a, b ──▶ Cast(int32) ──▶ Add ──▶ Mod(256) into the type's range ──▶ Cast(int8) ──▶ y
Nodes wrapped_bytes(Graph& graph, const Node& node) {
    const DataType type = type_of(graph, node.output(0));
    if (type != DataType::int8 && type != DataType::uint8) return {};
    const std::string& stem = node.output(0);
    Nodes nodes;
    Node whole = node;
    for (std::string& input : whole.inputs) {
        const std::string wide = graph.unique_name(stem + "_wide");
        nodes.push_back(cast(input, DataType::int32, wide));
        input = wide;
    }
    const std::string sum = graph.unique_name(stem + "_whole"), up = graph.unique_name(stem + "_up"),
                      rest = graph.unique_name(stem + "_rest"), down = graph.unique_name(stem + "_down");
    const auto number = [&](std::int32_t value) {
        return add_constant(graph, stem + "_number",
                            Tensor::of<std::int32_t>("", DataType::int32, {}, std::array{value}));
    };
    whole.outputs = {sum};
    nodes.push_back(std::move(whole));
    const std::int32_t low = type == DataType::int8 ? 128 : 0;
    nodes.push_back(made("Add", {sum, number(low)}, up));
    nodes.push_back(made("Mod", {up, number(256)}, rest)); // of integers: the sign of the divisor
    nodes.push_back(made("Sub", {rest, number(low)}, down));
    nodes.push_back(cast(down, type, stem));
    return nodes;
}

/// Whether the value, or what up to `casts` Casts make of it, leaves the graph or is compared with something.
bool is_looked_at(const Graph& graph, const std::string& name, int casts = 3) {
    if (std::ranges::find(graph.outputs, name, &ValueInfo::name) != graph.outputs.end()) return true;
    return std::ranges::any_of(graph.nodes, [&](const auto& reader) {
        if (std::ranges::find(reader->inputs, name) == reader->inputs.end()) return false;
        if (reader->is("Cast") || reader->is("Identity") || reader->is("Squeeze"))
            return casts > 0 && is_looked_at(graph, reader->output(0), casts - 1);
        return reader->is("Equal") || reader->is("IsInf") || reader->is("Greater") || reader->is("GreaterOrEqual") ||
               reader->is("Less") || reader->is("LessOrEqual");
    });
}

//  x ──▶ ReduceMax ──▶ y   ==>   x ──▶ · 0.5 ──▶ ReduceMax ──▶ · 2 ──▶ y
// Of nothing but -inf OpenVINO gives the least float, which a finite number halved never is and which doubles to -inf;
// ReduceMin likewise. Halving and doubling are exact (but of subnormal numbers). A maximum that is only subtracted, as
// Softmax does, makes the same of either.
Nodes infinite_extreme(Graph& graph, const Node& node) {
    const DataType type = type_of(graph, node.input(0));
    const bool narrow = type == DataType::float16 || type == DataType::bfloat16;
    if ((type != DataType::float32 && !narrow) || !is_looked_at(graph, node.output(0))) return {};
    const std::string& stem = node.output(0);
    const auto value = [&](const char* what) { return graph.unique_name(stem + what); };
    const auto factor = [&](float number) {
        return add_constant(graph, stem + "_factor", Tensor::of<float>("", DataType::float32, {}, std::array{number}));
    };
    const std::string half = value("_half"), extreme = value("_extreme");
    Nodes nodes;
    std::string read = node.input(0), written = stem;
    if (narrow) { // which is computed in float32 in any case
        read = value("_wide");
        written = value("_doubled");
        nodes.push_back(cast(node.input(0), DataType::float32, read));
    }
    Node reduction = node;
    reduction.inputs[0] = half;
    reduction.outputs = {extreme};
    nodes.push_back(made("Mul", {read, factor(0.5F)}, half));
    nodes.push_back(std::move(reduction));
    nodes.push_back(made("Mul", {extreme, factor(2.0F)}, written));
    if (narrow) nodes.push_back(cast(written, type, stem));
    return nodes;
}

bool is_extreme(const Node& node) { return node.is("ReduceMax") || node.is("ReduceMin") || node.is("GlobalMaxPool"); }

//  x ──▶ ReduceMax ──▶ y   ==>   x ──▶ ReduceMax ──▶ Max(m, m) ──▶ y
// What quantises y, OpenVINO lets the reduction do, which then compares what it has cut to the bytes' type.
Nodes extreme_of_floats(Graph& graph, const Node& node) {
    Nodes nodes = node.is("GlobalMaxPool") ? Nodes{} : infinite_extreme(graph, node);
    if (!is_floating(type_of(graph, node.input(0)))) return nodes;
    if (nodes.empty()) nodes.push_back(node);
    const auto reduction = std::ranges::find_if(nodes, is_extreme);
    const std::string found = graph.unique_name(node.output(0) + "_found");
    Node same = made("Max", {found, found}, reduction->output(0));
    reduction->outputs = {found};
    nodes.insert(std::next(reduction), std::move(same));
    return nodes;
}

//  x ──▶ node   ==>   x ──▶ Max(x, x) ──▶ node
Nodes of_its_own(Graph& graph, const Node& node) {
    Node reader = node;
    reader.inputs[0] = graph.unique_name(node.output(0) + "_read");
    return {made("Max", {node.input(0), node.input(0)}, reader.input(0)), reader};
}

/// A ConvTranspose with a smaller window than stride: OpenVINO lets it quantise its result, and where no window is,
/// each channel has the first one's bias and scale.
bool leaves_places_out(const Graph& graph, const Node& node) {
    if (!node.is("ConvTranspose")) return false;
    const auto weights = graph.info_or_name(node.input(1)).shape();
    const auto strides = node.ints_or("strides", {});
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(strides.size(), 1));
    if (!weights || weights->size() != strides.size() + 2 || dilations.size() != strides.size()) return false;
    for (std::size_t i = 0; i < strides.size(); ++i)
        if (((*weights)[i + 2] - 1) * dilations[i] + 1 < strides[i]) return true;
    return false;
}

//  node ──▶ y   ==>   node ──▶ Max(v, v) ──▶ y
Nodes quantised_by_others(Graph& graph, const Node& node) {
    Node before = node;
    before.outputs[0] = graph.unique_name(node.output(0) + "_found");
    Node same = made("Max", {before.output(0), before.output(0)}, node.output(0));
    return {std::move(before), std::move(same)};
}

/// A Pad of bytes by another number than 0, or along an axis of one element, where there is a zero point: OpenVINO pads
/// by it, and by 0 bytes.
bool pads_bytes_otherwise(const Graph& graph, const Node& node, std::int64_t opset) {
    if (!node.is("Pad") || node.string_or("mode", "constant") != "constant") return false;
    const auto shape = graph.info_or_name(node.input(0)).shape();
    if (!shape) return true;
    const auto pads = constant_pads(graph, node, shape->size(), opset);
    const Tensor* value = node.inputs.size() > 2 ? graph.constant(node.input(2)) : nullptr;
    const bool given = node.inputs.size() > 2 && !node.input(2).empty();
    if (!pads || (given && value == nullptr) || node.float_or("value", 0) != 0) return true;
    if (given && uniform_value(*value) != 0.0F) return true;
    for (std::size_t i = 0; i < shape->size(); ++i)
        if ((*shape)[i] == 1 && ((*pads)[i] != 0 || (*pads)[shape->size() + i] != 0)) return true;
    return false;
}

/// A window over columns of a product: OpenVINO takes the product's scales, one a column, to lie along axis 1.
bool slides_over_columns(const Graph& graph, const Node& node, const Uses& uses) {
    if (!node.is("AveragePool") && !node.is("MaxPool") && !node.is("Resize")) return false;
    const Node* source = uses.producer(node.input(0));
    if (source != nullptr && source->is("Add"))
        source = uses.producer(graph.constant(source->input(0)) != nullptr ? source->input(1) : source->input(0));
    return source != nullptr && source->is("MatMul");
}

/// Whether bytes reach a product of rows, moved or pooled on their way or not.
bool reach_a_product(const Uses& uses, const std::string& value, int steps = 8) {
    static const std::unordered_set<std::string_view> moving{
        "DequantizeLinear", "MaxPool", "AveragePool", "Reshape", "Flatten", "Transpose", "Squeeze", "Tile",
        "Unsqueeze",        "Slice",   "Split",       "Pad",     "Resize",  "Identity",  "Concat"};
    return std::ranges::any_of(uses.consumers(value), [&](const Node* reader) {
        if (reader->is("MatMul") || reader->is("Gemm")) return true;
        return steps > 0 && moving.contains(reader->op_type) &&
               std::ranges::any_of(reader->outputs,
                                   [&](const std::string& each) { return reach_a_product(uses, each, steps - 1); });
    });
}

/// Quantised behind a Concat, and a factor or shift or none: OpenVINO gives each joined part a zero point, which a
/// MatMul refuses. (QuantisedSemantics writes what it reads with nothing between.)
bool quantises_parts_of_a_product(const Graph& graph, const Node& node, const Uses& uses) {
    if (!node.is("QuantizeLinear")) return false;
    const Node* source = uses.producer(node.input(0));
    if (source == nullptr) return false;
    if (source->is("Mul") || source->is("Add") || source->is("Sub") || source->is("Div")) {
        const bool first = graph.constant(source->input(0)) != nullptr;
        if (!first && graph.constant(source->input(1)) == nullptr) return false;
        source = uses.producer(source->input(first ? 1 : 0));
    }
    return source != nullptr && source->is("Concat") && reach_a_product(uses, node.output(0));
}

//  NonMaxSuppression(iou_threshold t)   ==>   NonMaxSuppression(the next float after t)
// ONNX drops a box that overlaps a better one by more than t, OpenVINO by t or more.
Nodes dropped_beyond_threshold(Graph& graph, const Node& node) {
    constexpr float least = std::numeric_limits<float>::min();
    Node changed = node;
    changed.inputs.resize(std::max<std::size_t>(node.inputs.size(), 4));
    std::string& threshold = changed.inputs[3];
    const std::string& stem = node.output(0);
    const auto number = [&](float value) {
        return add_constant(graph, stem + "_number", Tensor::of<float>("", DataType::float32, {1}, std::array{value}));
    };
    if (threshold.empty()) { // 0 by default
        threshold = number(least);
        return {std::move(changed)};
    }
    if (const Tensor* known = graph.constant(threshold)) {
        const std::vector<float> values = known->to_floats();
        if (values.size() != 1 || known->type() != DataType::float32) return {}; // refused by who reads it
        threshold = number(std::max(least, std::nextafter(values[0], std::numeric_limits<float>::infinity())));
        return {std::move(changed)};
    }
    // 0.625 to 1.25 units in the last place more: rounded, the next number.
    const auto value = [&](const char* what) { return graph.unique_name(stem + what); };
    const std::string more = value("_more"), next = value("_next"), positive = value("_positive");
    Nodes nodes{made("Mul", {threshold, number(1.25F / (1 << 24))}, more), made("Add", {threshold, more}, next),
                made("Max", {next, number(least)}, positive)};
    threshold = positive;
    nodes.push_back(std::move(changed));
    return nodes;
}

//  LRN(alpha, bias b)   ==>   LRN(alpha / b, bias 1) ──▶ · b^-beta
// OpenVINO's kernel takes the bias for a whole number.
Nodes response_of_bias_one(Graph& graph, const Node& node) {
    const float bias = node.float_or("bias", 1), alpha = node.float_or("alpha", 1e-4F);
    const float outer = std::pow(bias, -node.float_or("beta", 0.75F));
    const DataType type = type_of(graph, node.input(0));
    if (!is_floating(type) || bias == std::floor(bias) || bias <= 0 || !std::isfinite(outer) ||
        !std::isfinite(alpha / bias))
        return {};
    const std::string& stem = node.output(0);
    Node normalised = node;
    normalised.outputs = {graph.unique_name(stem + "_of_bias_one")};
    normalised.set("alpha", alpha / bias);
    normalised.set("bias", 1.0F);
    const std::string factor = add_scalar(graph, stem + "_factor", type, outer);
    const std::string product = normalised.output(0);
    return {std::move(normalised), made("Mul", {product, factor}, stem)};
}

/// Whether a value is a MatMul's, or computed of it number by number.
bool is_of_product(const Uses& uses, const std::string& value, int steps = 12) {
    static const std::unordered_set<std::string_view> by_number{"Add",
                                                                "Sub",
                                                                "Mul",
                                                                "Div",
                                                                "Relu",
                                                                "Sigmoid",
                                                                "Tanh",
                                                                "Elu",
                                                                "Clip",
                                                                "HardSigmoid",
                                                                "LeakyRelu",
                                                                "Selu",
                                                                "HardSwish",
                                                                "Gelu",
                                                                "Erf",
                                                                "Softplus",
                                                                "Mish",
                                                                "Celu",
                                                                "Abs",
                                                                "Neg",
                                                                "PRelu",
                                                                "Sqrt",
                                                                "ThresholdedRelu",
                                                                "Softsign",
                                                                "Max",
                                                                "Min",
                                                                "Identity",
                                                                "Cast",
                                                                "Exp",
                                                                "Pow"};
    const Node* source = uses.producer(value);
    if (source == nullptr || steps == 0) return false;
    if (source->is("MatMul")) return true;
    return by_number.contains(source->op_type) && std::ranges::any_of(source->inputs, [&](const std::string& input) {
               return is_of_product(uses, input, steps - 1);
           });
}

//  x ──▶ PRelu(slope) ──▶ y   ==>   max(x, 0) + slope · min(x, 0)
// Behind a product OpenVINO lets the product compute it, for which it wants a slope a column.
Nodes slope_of_a_product(Graph& graph, const Node& node, std::int64_t opset, const Uses& uses) {
    const auto slope = graph.info_or_name(node.input(1)).shape();
    const DataType type = type_of(graph, node.input(0));
    if (!is_of_product(uses, node.input(0)) || opset < 8 || !slope || !is_floating(type)) return {};
    if (element_count(*slope) == 1 || element_count(*slope) == (slope->empty() ? 1 : slope->back())) return {};
    const std::string& stem = node.output(0);
    const std::string zero = add_scalar(graph, stem + "_zero", type, 0);
    const auto value = [&](const char* what) { return graph.unique_name(stem + what); };
    const std::string above = value("_above"), below = value("_below"), sloped = value("_sloped");
    return {made("Max", {node.input(0), zero}, above), made("Min", {node.input(0), zero}, below),
            made("Mul", {below, node.input(1)}, sloped), made("Add", {above, sloped}, stem)};
}

//  If {then: no elements}   ==>   If {then: some elements ──▶ Slice of none}
// OpenVINO gives an element where a branch is a constant without any (torchvision's batched_nms of no boxes).
void slice_empty_results(Graph& body, const Graph& around) {
    for (const ValueInfo& output : body.outputs) {
        const auto made_by = std::ranges::find_if(
            body.nodes, [&](const auto& node) { return std::ranges::count(node->outputs, output.name) > 0; });
        const bool is_node = made_by != body.nodes.end();
        const std::string& value = is_node ? (*made_by)->input(0) : output.name;
        const Tensor* tensor = nullptr;
        if (is_node && (*made_by)->is("Constant")) {
            const Attribute* given = (*made_by)->attribute("value");
            if (given != nullptr) tensor = std::get_if<Tensor>(&given->value);
        } else if (!is_node || (*made_by)->is("Identity")) {
            tensor = body.constant(value) != nullptr ? body.constant(value) : around.constant(value);
        }
        if (tensor == nullptr || tensor->count() != 0 || tensor->type() == DataType::string) continue;
        Shape some = tensor->shape();
        std::vector<std::int64_t> axes;
        for (std::size_t axis = 0; axis < some.size(); ++axis) {
            if (some[axis] != 0) continue;
            some[axis] = 1;
            axes.push_back(static_cast<std::int64_t>(axis));
        }
        const std::vector<std::byte> bytes(byte_size(tensor->type(), static_cast<std::size_t>(element_count(some))));
        const Tensor full("", tensor->type(), some, bytes);
        const Shape count{static_cast<std::int64_t>(axes.size())};
        const std::vector<std::int64_t> zeros(axes.size(), 0);
        const std::string of = add_constant(body, output.name + "_some", full);
        const std::string none = add_constant(body, output.name + "_none", Tensor::of_int64s("", count, zeros));
        const std::string at = add_constant(body, output.name + "_axes", Tensor::of_int64s("", count, axes));
        if (is_node) {
            body.nodes.erase(made_by);
        } else {
            body.initializers.erase(output.name);
        }
        body.add(made("Slice", {of, none, none, at}, output.name));
    }
}

//  x ──▶ HardSigmoid ──▶ y   ==>   x ──▶ Add(3) ──▶ Clip(0, 6) ──▶ Mul(1/6) ──▶ y
// This is what OpenVINO takes for a hard sigmoid that a convolution can compute in passing, and x * y for a hard swish.
// The operator itself it computes alone, in the plain layout and with nothing faster than a loop.
class HardGates {
public:
    explicit HardGates(const Graph& graph) {
        for (const auto& node : graph.nodes)
            if (node->is("HardSigmoid") && !node->outputs.empty()) gates_.emplace(node->output(0), node.get());
    }

    Nodes instead_of(Graph& graph, const Node& node, std::int64_t opset) const {
        if (gates_.empty() || opset < 7) return {};
        if (node.is("HardSigmoid")) return gate(graph, node, opset, node.output(0), false);
        if (!node.is("Mul") || node.inputs.size() != 2) return {};
        for (const std::size_t i : {0, 1}) {
            const auto found = gates_.find(node.input(i));
            if (found == gates_.end() || found->second->input(0) != node.input(1 - i)) continue;
            if (gates_hard_swish(*found->second)) return gate(graph, *found->second, opset, node.output(0), true);
        }
        return {};
    }

private:
    /// The gate, times what it reads if `swish`, as the value `to`.
    static Nodes gate(Graph& graph, const Node& node, std::int64_t opset, const std::string& to, bool swish) {
        const std::string& x = node.input(0);
        const DataType type = type_of(graph, x);
        const bool wider = type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float64;
        if (type != DataType::float32 && (!wider || opset < 11)) return {};
        const bool sixth = gates_hard_swish(node);
        const float alpha = node.float_or("alpha", 0.2F);
        const float beta = node.float_or("beta", 0.5F);
        const auto value = [&](const char* what) { return graph.unique_name(to + what); };
        const auto number = [&](float what) { return add_scalar(graph, to + "_number", type, what); };
        Nodes nodes;
        std::string shifted = value("_shifted");
        if (sixth) {
            nodes.push_back(made("Add", {x, number(3)}, shifted));
        } else {
            const std::string scaled = value("_scaled");
            nodes.push_back(made("Mul", {x, number(alpha)}, scaled));
            nodes.push_back(made("Add", {scaled, number(beta)}, shifted));
        }
        const float most = sixth ? 6.0F : 1.0F;
        const std::string bounded = sixth ? value("_bounded") : to;
        if (opset >= 11) {
            nodes.push_back(made("Clip", {shifted, number(0), number(most)}, bounded));
        } else {
            nodes.push_back(made("Clip", {shifted}, bounded));
            nodes.back().set("min", 0.0F);
            nodes.back().set("max", most);
        }
        if (!sixth) return nodes;
        std::string product = bounded;
        if (swish) {
            product = value("_product");
            nodes.push_back(made("Mul", {x, bounded}, product));
        }
        nodes.push_back(made("Mul", {product, number(1.0F / 6)}, to));
        return nodes;
    }

    std::map<std::string, const Node*> gates_;
};

/// Numbers of BF16 are compared in float32, which holds each: without AVX-512 an infinity was not equal to itself.
Nodes compared_wide(Graph& graph, const Node& node) {
    static constexpr std::array<const char*, 5> comparisons{"Equal", "Greater", "GreaterOrEqual", "Less",
                                                            "LessOrEqual"};
    if (std::ranges::none_of(comparisons, [&](const char* type) { return node.is(type); }) ||
        type_of(graph, node.input(0)) != DataType::bfloat16)
        return {};
    Nodes nodes;
    Node comparison = node;
    for (std::size_t i = 0; i < comparison.inputs.size(); ++i) {
        const std::string wide = graph.unique_name(node.output(0) + "_wide" + std::to_string(i));
        nodes.push_back(cast(comparison.inputs[i], DataType::float32, wide));
        comparison.inputs[i] = wide;
    }
    nodes.push_back(std::move(comparison));
    return nodes;
}

/// A Resize whose axes are counted from the end has them from the front.
Nodes counted_from_the_front(const Graph& graph, const Node& node) {
    auto axes = node.ints_or("axes", {});
    const auto shape = graph.info_or_name(node.input(0)).shape();
    if (!shape || std::ranges::none_of(axes, [](std::int64_t axis) { return axis < 0; })) return {};
    for (std::int64_t& axis : axes)
        if (axis < 0) axis += static_cast<std::int64_t>(shape->size());
    Nodes nodes{node};
    nodes[0].set("axes", std::move(axes));
    return nodes;
}

//  x ──▶ LSTM, GRU or RNN, others   ==>   x ──▶ Max(x, x) ──▶ LSTM
// Turned from and to [N, T, features] without a copy, the layer reads what takes the place of others' values, or writes
// its results there.
Nodes sequence_of_its_own(Graph& graph, const Node& node, const Uses& uses) {
    const std::string& sequence = node.input(0);
    if (uses.use_count(sequence) < 2 || !is_floating(type_of(graph, sequence))) return {};
    return of_its_own(graph, node);
}

Nodes instead_of(Graph& graph, const Node& node, std::int64_t opset, const QuantisedSemantics& quantised,
                 const HardGates& gates, const Uses& uses) {
    if (Nodes nodes = gates.instead_of(graph, node, opset); !nodes.empty()) return nodes;
    if (Nodes nodes = quantised.instead_of(graph, node); !nodes.empty()) return nodes;
    if (is_extreme(node) && quantised.any()) return extreme_of_floats(graph, node);
    if (quantised.any() && (slides_over_columns(graph, node, uses) || quantises_parts_of_a_product(graph, node, uses) ||
                            pads_bytes_otherwise(graph, node, opset) || gathers_scaled_bytes(graph, node, uses) ||
                            adds_axes_behind_columns(graph, node, uses)))
        return of_its_own(graph, node);
    if (quantised.any() && leaves_places_out(graph, node)) return quantised_by_others(graph, node);
    if (node.is("Gather")) return quantised.any() ? gathered_in_a_row(graph, node, opset) : Nodes{};
    if (node.is("ReduceMax") || node.is("ReduceMin")) return infinite_extreme(graph, node);
    if (node.is("NonMaxSuppression")) return dropped_beyond_threshold(graph, node);
    if (node.is("Softmax") && opset < 13) return coerced_softmax(graph, node);
    if (node.is("Resize")) return counted_from_the_front(graph, node);
    if (node.is("LSTM") || node.is("GRU") || node.is("RNN")) return sequence_of_its_own(graph, node, uses);
    if (node.is("LRN")) return response_of_bias_one(graph, node);
    if (node.is("Slice")) return slice_as_onnx(graph, node, opset);
    if (node.is("PRelu")) return slope_of_a_product(graph, node, opset, uses);
    if (Nodes nodes = compared_wide(graph, node); !nodes.empty()) return nodes;
    if ((node.is("Add") || node.is("Sub") || node.is("Mul")) && opset >= 10) return wrapped_bytes(graph, node);
    // From opset 13 on to 17 OpenVINO (2026.4) does not read the axes of these three, and reduces over all.
    if ((node.is("ReduceL1") || node.is("ReduceLogSum") || node.is("ReduceLogSumExp")) && opset >= 13 && opset < 18 &&
        !node.ints_or("axes", {}).empty())
        return written_reduction(graph, node, opset);
    return {};
}

} // namespace

void write_onnx_semantics(Graph& graph, std::int64_t opset) {
    for (const auto& node : graph.nodes) {
        for_each_subgraph(*node, [&](Graph& body) {
            if (node->is("If") && opset >= 10) slice_empty_results(body, graph);
            const BorrowedValues borrowed(body, graph, *node);
            write_onnx_semantics(body, opset);
        });
    }
    // What these give is looked at below.
    replace_each(graph, [&](const Node& node) {
        if (node.is("GatherElements")) return gathered_from_the_first(graph, node);
        return node.is("LpNormalization") ? divided_by_norm(graph, node, opset) : sums_of_einsum(graph, node, opset);
    });
    {
        const bool dequantises =
            std::ranges::any_of(graph.nodes, [](const auto& node) { return node->is("DequantizeLinear"); });
        const auto scaled = dequantises ? std::optional<Uses>(graph) : std::nullopt;
        replace_each(graph, [&](const Node& node) {
            return reductions_as_onnx(graph, node, opset, scaled ? &*scaled : nullptr);
        });
    }
    // A convolution may need several of its forms.
    constexpr int forms = 3;
    for (int i = 0; i < forms; ++i)
        if (!replace_each(graph, [&](const Node& node) { return windows_as_onnx(graph, node, opset); })) break;
    const QuantisedSemantics quantised(graph);
    const HardGates gates(graph);
    const Uses uses(graph);
    replace_each(graph, [&](const Node& node) { return instead_of(graph, node, opset, quantised, gates, uses); });
}

} // namespace lathe::openvino
