// Operators that ONNX Runtime's optimisers put in the place of several (com.microsoft, and normalisations in ONNX's own
// domain before it had them), as the operators that they stand for.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#include "onnx/fused_operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "onnx/onnxruntime_schemas.hpp"

namespace lathe {

std::string added(NodeWriter& to, const std::string& value, const std::string& optional) {
    return optional.empty() ? value : to.op("Add", {value, optional});
}

std::string unsqueezed(NodeWriter& to, const std::string& value, std::vector<std::int64_t> axes) {
    constexpr std::int64_t axes_are_an_input = 13;
    if (to.opset() < axes_are_an_input) return to.op("Unsqueeze", {value}, {{"axes", std::move(axes)}});
    return to.op("Unsqueeze", {value, to.integers(std::move(axes))});
}

std::vector<std::string> split(NodeWriter& to, const std::string& value, const std::vector<std::int64_t>& sizes) {
    constexpr std::int64_t sizes_are_an_input = 13;
    Node node = made("Split", {value});
    node.set("axis", std::int64_t{-1});
    if (to.opset() < sizes_are_an_input) {
        node.set("split", sizes);
    } else {
        node.inputs.push_back(to.integers(sizes));
    }
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        parts.push_back(to.graph().unique_name(value + "_part"));
    to.put(std::move(node), parts);
    return parts;
}

std::string running_size(NodeWriter& to, const std::string& value, std::int64_t axis) {
    return to.op("Gather", {to.op("Shape", {value}), to.integer(axis)}, {{"axis", std::int64_t{0}}});
}

std::string reduced(NodeWriter& to, const char* type, const std::string& value, std::int64_t axis, bool keep) {
    const std::int64_t axes_are_an_input = std::string_view(type) == "ReduceSum" ? 13 : 18;
    const std::int64_t keepdims = keep ? 1 : 0;
    if (to.opset() < axes_are_an_input)
        return to.op(type, {value}, {{"axes", std::vector{axis}}, {"keepdims", keepdims}});
    return to.op(type, {value, to.integers({axis})}, {{"keepdims", keepdims}});
}

namespace {

bool is_narrow(DataType type) { return type == DataType::float16 || type == DataType::bfloat16; }

std::string cast(NodeWriter& to, const std::string& value, DataType type) {
    return to.op("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
}

/// Runs `compute` on the value in float32 and gives its answer in the value's own type.
template <class Compute>
std::string in_float32(NodeWriter& to, const std::string& value, DataType type, const Compute& compute) {
    if (!is_narrow(type)) return compute(value);
    return cast(to, compute(cast(to, value, DataType::float32)), type);
}

/// Gelu by the error function, or by tanh.
std::string gelu(NodeWriter& to, const std::string& x, const std::string& like, bool by_tanh) {
    constexpr std::int64_t is_an_operator = 20;
    if (to.opset() >= is_an_operator)
        return to.op("Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
    std::string inner;
    if (by_tanh) {
        const std::string cube = to.op("Mul", {to.op("Mul", {x, x}), x});
        const std::string sum = to.op("Add", {x, to.op("Mul", {cube, to.number(0.044715, like)})});
        inner = to.op("Tanh", {to.op("Mul", {sum, to.number(std::sqrt(2 / std::numbers::pi), like)})});
    } else {
        inner = to.op("Erf", {to.op("Div", {x, to.number(std::numbers::sqrt2, like)})});
    }
    const std::string share = to.op("Add", {inner, to.number(1, like)});
    return to.op("Mul", {to.op("Mul", {x, share}), to.number(0.5, like)});
}

template <bool by_tanh>
bool gelu_of_sum(NodeWriter& to) {
    const Node& node = to.node();
    to.result(0, gelu(to, added(to, node.input(0), node.input(1)), node.input(0), by_tanh));
    return true;
}

bool quick_gelu(NodeWriter& to) {
    const std::string& x = to.node().input(0);
    const float alpha = to.node().float_or("alpha", 1.702F);
    const std::string inner = alpha == 1 ? x : to.op("Mul", {x, to.number(alpha, x)});
    to.result(0, to.op("Mul", {x, to.op("Sigmoid", {inner})}));
    return true;
}

bool gemm_fast_gelu(NodeWriter& to) {
    const Node& node = to.node();
    const std::string product = to.op("MatMul", {node.input(0), node.input(1)});
    to.result(0, gelu(to, added(to, product, node.input(2)), node.input(0), true));
    return true;
}

// X, bias, skip
bool bias_add(NodeWriter& to) {
    to.result(0, added(to, added(to, to.node().input(0), to.node().input(1)), to.node().input(2)));
    return true;
}

// The sum's left half times the Gelu of its right.
bool bias_split_gelu(NodeWriter& to) {
    const Node& node = to.node();
    const auto size = to.size(node.input(1), -1);
    if (!size || *size % 2 != 0) return false;
    const auto halves = split(to, added(to, node.input(0), node.input(1)), {*size / 2, *size / 2});
    to.result(0, to.op("Mul", {halves[0], gelu(to, halves[1], node.input(0), false)}));
    return true;
}

bool bias_softmax(NodeWriter& to) {
    const Node& node = to.node();
    const auto rank = to.rank(node.input(0));
    const std::int64_t axis = node.int_or("axis", 1);
    if (axis != -1 && (!rank || axis != static_cast<std::int64_t>(*rank) - 1)) return false;
    to.result(0, to.op("Softmax", {added(to, node.input(0), node.input(1))}, {{"axis", std::int64_t{-1}}}));
    return true;
}

/// What a normalisation leaves beside its answer.
struct Statistics {
    std::string mean, inverse_deviation;
};

/// Over the last dimension, with a bias or without.
std::string layer_normalised(NodeWriter& to, const std::string& x, const std::string& scale, const std::string& bias,
                             float epsilon, bool with_statistics, Statistics& statistics) {
    constexpr std::int64_t is_an_operator = 17;
    if (to.opset() >= is_an_operator && !with_statistics) {
        std::vector<std::string> inputs{x, scale};
        if (!bias.empty()) inputs.push_back(bias);
        return to.op("LayerNormalization", std::move(inputs), {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
    }
    const auto normalise = [&](const std::string& value) {
        statistics.mean = reduced(to, "ReduceMean", value, -1, true);
        const std::string centred = to.op("Sub", {value, statistics.mean});
        const std::string like = is_narrow(to.type(scale)) ? "" : scale;
        const std::string squares = to.op("Pow", {centred, to.number(2, like)});
        const std::string variance = reduced(to, "ReduceMean", squares, -1, true);
        const std::string deviation = to.op("Sqrt", {to.op("Add", {variance, to.number(epsilon, like)})});
        if (with_statistics) statistics.inverse_deviation = to.op("Reciprocal", {deviation});
        return to.op("Div", {centred, deviation});
    };
    return added(to, to.op("Mul", {in_float32(to, x, to.type(scale), normalise), scale}), bias);
}

/// The number of dimensions from `axis` on is one.
bool over_the_last(NodeWriter& to, std::int64_t axis) {
    if (axis == -1) return true;
    const auto rank = to.rank(to.node().input(0));
    return rank && (axis < 0 ? axis + static_cast<std::int64_t>(*rank) : axis) + 1 == static_cast<std::int64_t>(*rank);
}

bool layer_normalisation(NodeWriter& to) {
    const Node& node = to.node();
    if (!over_the_last(to, node.int_or("axis", -1))) return false;
    Statistics statistics;
    to.result(0, layer_normalised(to, node.input(0), node.input(1), node.input(2), node.float_or("epsilon", 1e-5F),
                                  to.wants(1) || to.wants(2), statistics));
    to.result(1, statistics.mean);
    to.result(2, statistics.inverse_deviation);
    return true;
}

// X, scale
bool rms_normalisation(NodeWriter& to) {
    const Node& node = to.node();
    if (!over_the_last(to, node.int_or("axis", -1)) || to.wants(1)) return false;
    to.result(0, rms_normalised(to, node.input(0), node.input(1), node.float_or("epsilon", 1e-5F)));
    return true;
}

constexpr float skip_epsilon = 1e-12F; // the default of what adds before it normalises

// input, skip, gamma, beta, bias; output, mean, inverse deviation, the sum
bool skip_layer_normalisation(NodeWriter& to) {
    const Node& node = to.node();
    const std::string sum = added(to, to.op("Add", {node.input(0), node.input(1)}), node.input(4));
    Statistics statistics;
    to.result(0, layer_normalised(to, sum, node.input(2), node.input(3), node.float_or("epsilon", skip_epsilon),
                                  to.wants(1) || to.wants(2), statistics));
    to.result(1, statistics.mean);
    to.result(2, statistics.inverse_deviation);
    to.result(3, sum);
    return true;
}

// input, skip, gamma, bias; output, mean, inverse deviation, the sum
bool skip_rms_normalisation(NodeWriter& to) {
    const Node& node = to.node();
    if (to.wants(1) || to.wants(2)) return false;
    const std::string sum = added(to, to.op("Add", {node.input(0), node.input(1)}), node.input(3));
    to.result(0, rms_normalised(to, sum, node.input(2), node.float_or("epsilon", skip_epsilon)));
    to.result(3, sum);
    return true;
}

// words, segments, three tables in their order, gamma, beta, mask, positions; output, length of the mask, the sum
bool embedding(NodeWriter& to) {
    const Node& node = to.node();
    for (const std::size_t needed : std::array<std::size_t, 4>{2, 3, 5, 6})
        if (node.input(needed).empty()) return false;
    const auto looked_up = [&](const std::string& table, const std::string& at) {
        return to.op("Gather", {table, at}, {{"axis", std::int64_t{0}}});
    };
    const std::string &ids = node.input(0), &positions = node.input(8);
    std::string sum = looked_up(node.input(2), ids);
    if (positions.empty()) {
        const std::string length = unsqueezed(to, running_size(to, ids, 1), {0});
        sum = to.op("Add", {sum, to.op("Slice", {node.input(3), to.integers({0}), length, to.integers({0})})});
    } else {
        sum = to.op("Add", {sum, looked_up(node.input(3), positions)});
    }
    if (!node.input(1).empty()) sum = to.op("Add", {sum, looked_up(node.input(4), node.input(1))});
    Statistics statistics;
    to.result(0, layer_normalised(to, sum, node.input(5), node.input(6), node.float_or("epsilon", skip_epsilon), false,
                                  statistics));
    to.result(2, sum);
    if (!to.wants(1)) return true;
    const std::string& mask = node.input(7);
    // Without a mask: zero for each row.
    const std::string counted = mask.empty() ? to.op("Mul", {ids, to.op("Sub", {ids, ids})}) : mask;
    to.result(1, cast(to, reduced(to, "ReduceSum", cast(to, counted, DataType::int32), 1, false), DataType::int32));
    return true;
}

/// A's or B's rows and columns, and the first dimension behind the batch, changed round where the node asks.
std::string turned(NodeWriter& to, const std::string& value, std::size_t rank, bool transposed, bool batches) {
    if (!transposed && !batches) return value;
    std::vector<std::int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    if (batches) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (transposed) std::swap(order[rank - 1], order[rank - 2]);
    return to.op("Transpose", {value}, {{"perm", std::move(order)}});
}

bool fused_product(NodeWriter& to) {
    const Node& node = to.node();
    std::array<std::string, 2> sides{node.input(0), node.input(1)};
    const std::array transposed{node.int_or("transA", 0) != 0, node.int_or("transB", 0) != 0};
    const std::array batches{node.int_or("transBatchA", 0) != 0, node.int_or("transBatchB", 0) != 0};
    std::array<std::size_t, 2> ranks{};
    for (std::size_t i = 0; i < 2; ++i) {
        if (!transposed[i] && !batches[i]) continue;
        const auto rank = to.rank(sides[i]);
        if (!rank || *rank == 0) return false;
        ranks[i] = *rank;
    }
    for (std::size_t i = 0; i < 2; ++i) {
        const bool matrix = ranks[i] >= 2; // one dimension is the same either way
        sides[i] = turned(to, sides[i], ranks[i], transposed[i] && matrix, batches[i] && matrix);
    }
    const float alpha = node.float_or("alpha", 1);
    const std::string product = to.op("MatMul", {sides[0], sides[1]});
    to.result(0, alpha == 1 ? product : to.op("Mul", {product, to.number(alpha, node.input(0))}));
    return true;
}

/// The activation that a product's node names, with its numbers.
std::optional<Node> activation(NodeWriter& to, const std::string& type, const std::vector<float>& numbers) {
    const auto number = [&](std::size_t index, float otherwise) {
        return index < numbers.size() ? numbers[index] : otherwise;
    };
    Node node = made(type, {});
    if (type == "Clip") {
        if (numbers.size() < 2) return std::nullopt;
        const std::string& like = to.node().input(0);
        node.inputs = {"", to.number(double{numbers[0]}, like), to.number(double{numbers[1]}, like)};
    } else if (type == "LeakyRelu") {
        node.set("alpha", number(0, 0.01F));
    } else if (type == "HardSigmoid") {
        node.set("alpha", number(0, 0.2F));
        node.set("beta", number(1, 0.5F));
    } else if (type == "Elu" || type == "ThresholdedRelu") {
        node.set("alpha", number(0, 1));
    } else if (type != "Relu" && type != "Tanh" && type != "Sigmoid" && type != "Softplus" && type != "Softsign" &&
               type != "HardSwish") {
        return std::nullopt;
    }
    return node;
}

/// Appends the activation to what a product gave, if the node names one.
void activated(NodeWriter& to, const std::string& value, std::optional<Node> node) {
    if (!node) return to.result(0, value);
    if (node->inputs.empty()) {
        node->inputs = {value};
    } else {
        node->inputs[0] = value;
    }
    to.result(0, to.give(std::move(*node), "activated"));
}

// X, W, bias, a sum to add to
bool fused_convolution(NodeWriter& to) {
    const Node& node = to.node();
    const std::string type = node.string_or("activation", "");
    auto after = type.empty() ? std::nullopt : activation(to, type, node.floats_or("activation_params", {}));
    if (!type.empty() && !after) return false;
    Node conv = made("Conv", {node.input(0), node.input(1)});
    if (!node.input(2).empty()) conv.inputs.push_back(node.input(2));
    copy_attributes(node, conv, {"activation", "activation_params"});
    activated(to, added(to, to.give(std::move(conv), "Conv"), node.input(3)), std::move(after));
    return true;
}

bool fused_gemm(NodeWriter& to) {
    const Node& node = to.node();
    const std::string type = node.string_or("activation", "");
    std::vector<float> numbers;
    for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
        if (node.attribute(name) != nullptr) numbers.push_back(node.float_or(name, 0));
    }
    auto after = type.empty() ? std::nullopt : activation(to, type, numbers);
    if (!type.empty() && !after) return false;
    Node gemm = made("Gemm", node.inputs);
    copy_attributes(node, gemm, {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
    activated(to, to.give(std::move(gemm), "Gemm"), std::move(after));
    return true;
}

/// Operators that ONNX took over later as they were.
bool standard(NodeWriter& to) {
    const Node& node = to.node();
    Node same = made(node.op_type, node.inputs);
    copy_attributes(node, same);
    const std::int64_t since = node.op_type == "Trilu" ? 14 : 11;
    if (to.opset() < since) return false;
    to.put(std::move(same), {node.output(0)});
    return true;
}

bool grid_sample(NodeWriter& to) {
    constexpr std::int64_t is_an_operator = 16, renamed = 20;
    if (to.opset() < is_an_operator) return false;
    const Node& node = to.node();
    Node same = made("GridSample", node.inputs);
    copy_attributes(node, same);
    std::string mode = node.string_or("mode", "bilinear");
    if (to.opset() >= renamed) mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
    same.set("mode", mode);
    to.put(std::move(same), {node.output(0)});
    return true;
}

const FusedForms& simple_forms() {
    static const FusedForms forms{
        {"BiasAdd", {bias_add, 3}},
        {"BiasGelu", {gelu_of_sum<false>, 2}},
        {"BiasSoftmax", {bias_softmax, 2}},
        {"BiasSplitGelu", {bias_split_gelu, 2}},
        {"EmbedLayerNormalization", {embedding}},
        {"FastGelu", {gelu_of_sum<true>}},
        {"FusedConv", {fused_convolution, 2}},
        {"FusedGemm", {fused_gemm, 2}},
        {"FusedMatMul", {fused_product, 2}},
        {"Gelu", {gelu_of_sum<false>}},
        {"GemmFastGelu", {gemm_fast_gelu, 2}},
        {"GridSample", {grid_sample, 2}},
        {"Pad", {standard, 2}},
        {"QuickGelu", {quick_gelu}},
        {"SkipLayerNormalization", {skip_layer_normalisation, 3}},
        {"SkipSimplifiedLayerNormalization", {skip_rms_normalisation, 3}},
        {"TransposeMatMul", {fused_product, 2}},
        {"Trilu", {standard}},
    };
    return forms;
}

const FusedForm* found_in(const FusedForms& forms, const Node& node) {
    const auto found = node.domain == "com.microsoft" ? forms.find(node.op_type) : forms.end();
    return found == forms.end() ? nullptr : &found->second;
}

const FusedForm* block_form_of(const Node& node) { return found_in(block_weight_forms(), node); }

const FusedForm* form_of(const Node& node, std::int64_t opset) {
    constexpr std::int64_t layer_normalization_since = 17;
    static const FusedForm layer{layer_normalisation, 2}, rms{rms_normalisation, 2};
    if (node.is("LayerNormalization")) return opset < layer_normalization_since ? &layer : nullptr;
    if (node.op_type == "SimplifiedLayerNormalization" && (node.domain.empty() || node.domain == "com.microsoft"))
        return &rms;
    const FusedForm* simple = found_in(simple_forms(), node);
    return simple != nullptr ? simple : found_in(fused_attention_forms(), node);
}

bool holds_one(const Graph& graph, const std::function<bool(const Node&)>& wanted) {
    return std::ranges::any_of(graph.nodes, [&](const auto& node) {
        bool inside = wanted(*node);
        for_each_subgraph(*node, [&](const Graph& inner) { inside = inside || holds_one(inner, wanted); });
        return inside;
    });
}

std::size_t write_out(Model& model, const std::function<const FusedForm*(const Node&)>& form_for) {
    const std::int64_t opset = model.opset();
    return write_out_nodes(model.graph, [&](Graph& graph, const Node& node) -> std::optional<std::vector<Node>> {
        const FusedForm* form = form_for(node);
        if (form == nullptr) return std::nullopt;
        NodeWriter writer(graph, node, opset);
        for (std::size_t i = 0; i < form->inputs; ++i)
            if (node.input(i).empty()) return std::nullopt;
        if (!form->write(writer)) return std::nullopt;
        return std::move(writer.nodes());
    });
}

} // namespace

std::string rms_normalised(NodeWriter& to, const std::string& x, const std::string& scale, double epsilon) {
    constexpr std::int64_t is_an_operator = 23;
    if (to.opset() >= is_an_operator)
        return to.op("RMSNormalization", {x, scale},
                     {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(epsilon)}});
    const DataType type = to.type(scale);
    const auto normalise = [&](const std::string& value) {
        const std::string like = is_narrow(type) ? "" : scale;
        const std::string squares = to.op("Pow", {value, to.number(2, like)});
        const std::string mean = reduced(to, "ReduceMean", squares, -1, true);
        const std::string root = to.op("Sqrt", {to.op("Add", {mean, to.number(epsilon, like)})});
        return to.op("Mul", {value, to.op("Reciprocal", {root})});
    };
    return to.op("Mul", {in_float32(to, x, type, normalise), scale});
}

std::size_t write_out_fused_operators(Model& model) {
    constexpr std::int64_t first_opset = 11; // the forms' Clip, Slice, Range
    const std::int64_t opset = model.opset();
    const auto has_form = [&](const Node& node) { return form_of(node, opset) != nullptr; };
    const auto has_blocks = [](const Node& node) { return block_form_of(node) != nullptr; };
    const bool fused = holds_one(model.graph, has_form), blocks = holds_one(model.graph, has_blocks);
    if (opset < first_opset || !(fused || blocks)) return 0;
    know_onnxruntime_operators();
    // Types and ranks decide on forms. Where a model contradicts itself, it is for others to say so.
    if (Model inferred = model; infer_shapes(inferred)) model = std::move(inferred);
    std::size_t count = write_out(model, [&](const Node& node) { return form_of(node, opset); });
    if (!blocks) return count;
    // ONNX has weights in blocks since opset 21; a model that does not get there gets them in floats.
    if (opset < first_opset_in_blocks) {
        if (Model newer = model; convert_opset(newer, first_opset_in_blocks)) model = std::move(newer);
    }
    return count + write_out(model, block_form_of);
}

} // namespace lathe
