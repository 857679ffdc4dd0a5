#include <algorithm>
#include <cmath>

#include "passes/channel_affine.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

constexpr const char* linear_types = "Conv|ConvTranspose|Gemm";

/// Turns the site's root into `producer` with `affine` applied to its output; false if a number would not be finite.
bool fold_into(const Site& site, const Node& producer, const Linear& linear, const Affine& affine) {
    std::vector<float> weight = linear.weight->to_floats();
    for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] = static_cast<float>(weight[i] * affine.scale[output_channel(producer, linear, i)]);
    }
    const auto old_bias = linear.bias == nullptr ? std::vector<float>{0} : linear.bias->to_floats();
    std::vector<float> bias(linear.channels);
    for (std::size_t c = 0; c < bias.size(); ++c) {
        const double old = linear.bias_factor * old_bias[old_bias.size() == 1 ? 0 : c];
        bias[c] = static_cast<float>(old * affine.scale[c] + affine.shift[c]);
    }
    const DataType type = linear.weight->type();
    const auto new_weight = finite_tensor(type, linear.weight->shape(), weight);
    const auto new_bias = finite_tensor(type, {static_cast<std::int64_t>(linear.channels)}, bias);
    if (!new_weight || !new_bias) return false;
    Node folded = producer;
    const bool scaled = std::any_of(affine.scale.begin(), affine.scale.end(), [](double s) { return s != 1; });
    if (scaled) folded.inputs[1] = add_constant(site.graph, producer.input(1), *new_weight);
    folded.inputs.resize(3);
    folded.inputs[2] = add_constant(
        site.graph, producer.input(2).empty() ? producer.input(1) + ".bias" : producer.input(2), *new_bias);
    if (folded.is("Gemm")) folded.erase_attribute("beta");
    become(site.root, std::move(folded), producer);
    return true;
}

bool fold_norm(const Site& site) {
    if (!is_inference(site.root, site.context.opset)) return false;
    const Node& producer = site.match.node("linear");
    const auto linear = linear_of(site.graph, producer);
    if (!linear) return false;
    const auto affine = affine_of_norm(site.match, site.root, linear->channels);
    return affine && fold_into(site, producer, *linear, *affine);
}

bool fold_arithmetic(const Site& site) {
    const Node& op = site.root;
    const Node& producer = site.match.node("linear");
    const auto linear = linear_of(site.graph, producer);
    if (!linear || site.context.opset < 7 || site.match.constant("c").type() != linear->weight->type()) return false;
    const auto values = per_channel(site.match.constant("c"), linear->weight->shape().size(), linear->channels);
    if (!values) return false;
    return fold_into(site, producer, *linear, affine_of_arithmetic(site.match, op, *values));
}

// ---- products with a constant matrix, of any rank ----

/// x W, or x W + b: the columns of W are the last axis of the result.
Pattern matrix_product(bool bias) {
    auto product = Pattern::op("MatMul", {Pattern::any(), Pattern::constant("weight")}, "product").read_once();
    if (!bias) return product;
    return Pattern::op("Add", {std::move(product), Pattern::constant("bias")}, "sum").any_order().read_once();
}

/// Axes that a product is known to have: at least its columns.
std::size_t known_rank(const std::optional<ValueInfo>& info) { return info && info->dims ? info->dims->size() : 1; }

/// The match's product with every column times its scale, plus its shift, put where it was: the name of the result.
/// Nothing, with nothing changed, where the match has another form or a number would not be finite.
std::optional<std::string> scaled_product(const Site& site, std::size_t columns, const Affine& affine) {
    Graph& graph = site.graph;
    const Node& product = site.match.node("product");
    const Tensor& weight = site.match.constant("weight");
    const auto info = graph.info(product.output(0));
    if (weight.shape().size() != 2 || !is_floating(weight.type()) || columns == 0 ||
        weight.shape()[1] != static_cast<std::int64_t>(columns)) {
        return std::nullopt;
    }
    std::vector<float> scaled = weight.to_floats();
    for (std::size_t i = 0; i < scaled.size(); ++i)
        scaled[i] = static_cast<float>(scaled[i] * affine.scale[i % columns]);
    std::vector<float> shift(columns);
    if (site.match.constants.contains("bias")) {
        const Tensor& bias = site.match.constant("bias");
        const auto values = along_columns(bias, columns, known_rank(info));
        if (!values || bias.type() != weight.type()) return std::nullopt;
        for (std::size_t i = 0; i < columns; ++i)
            shift[i] = static_cast<float>((*values)[i] * affine.scale[i] + affine.shift[i]);
    } else {
        std::copy(affine.shift.begin(), affine.shift.end(), shift.begin());
    }
    const auto new_weight = finite_tensor(weight.type(), weight.shape(), scaled);
    const auto new_shift = finite_tensor(weight.type(), {static_cast<std::int64_t>(columns)}, shift);
    if (!new_weight || !new_shift) return std::nullopt;

    const auto put = [&](Node node) {
        node.name = product.name;
        std::string name = graph.unique_name(product.output(0));
        node.outputs = {name};
        insert_before(site, product, std::move(node), info);
        return name;
    };
    std::string result =
        put(make_node("MatMul", {product.input(0), add_constant(graph, product.input(1), *new_weight)}));
    if (std::any_of(shift.begin(), shift.end(), [](float each) { return each != 0; }))
        result = put(make_node("Add", {result, add_constant(graph, product.input(1) + ".bias", *new_shift)}));
    move_shape_readers(site, product.output(0), result);
    if (site.match.nodes.contains("sum")) move_shape_readers(site, site.match.node("sum").output(0), result);
    return result;
}

bool fold_norm_of_rows(const Site& site) {
    const auto columns = site.match.constant("scale").count();
    // [rows, columns]: what the Reshape makes of the product's rows are rows again.
    const auto info = site.graph.info(site.root.input(0));
    const auto sizes = constant_integers(site.graph, site.match.node("rows"), "shape", 1);
    const bool rows = info && info->dims
                          ? info->dims->size() == 2 && info->dims->back().size == static_cast<std::int64_t>(columns)
                          : sizes && sizes->size() == 2 && sizes->back() == static_cast<std::int64_t>(columns);
    if (!is_inference(site.root, site.context.opset) || !rows) return false;
    const auto affine = affine_of_norm(site.match, site.root, columns);
    if (!affine) return false;
    const auto product = scaled_product(site, columns, *affine);
    if (!product) return false;
    const Node& reshape = site.match.node("rows");
    Node moved = reshape;
    moved.inputs[0] = *product;
    become(site.root, std::move(moved), reshape);
    return true;
}

bool fold_scale_of_columns(const Site& site) {
    const Node& op = site.root;
    const Tensor& weight = site.match.constant("weight");
    const Tensor& constant = site.match.constant("c");
    const auto info = site.graph.info(site.match.node("product").output(0));
    if (site.context.opset < 7 || weight.shape().size() != 2 || constant.type() != weight.type()) return false;
    const auto columns = static_cast<std::size_t>(weight.shape()[1]);
    // One number for all is left where it is: attention's scale belongs to attention.
    if (columns < 2) return false;
    auto scale = along_columns(constant, columns, known_rank(info));
    if (!scale) return false;
    if (op.is("Div")) {
        for (double& each : *scale)
            each = 1 / each;
    }
    const auto product = scaled_product(site, columns, {std::move(*scale), std::vector<double>(columns)});
    if (!product) return false;
    if (!bypass(site, *product)) become(site.root, make_node("Identity", {*product}), op);
    return true;
}

} // namespace

//  Conv(W, b)                        Conv(W * s, (b - mean) * s + shift)
//  |                           ==>   |
//  BatchNormalization                y
//  |
//  y                    s = scale / sqrt(variance + epsilon), per output channel
//
// Likewise behind ConvTranspose and Gemm, and behind a MatMul whose rows a Reshape puts one behind the other. The
// weights stay as they are where somebody else reads them, where they come out of a DequantizeLinear, or where a result
// would not be finite.
Result<bool> fold_batch_norm(Graph& graph, PassContext& context) {
    const auto norm_of = [](Pattern producer) {
        return Pattern::op("BatchNormalization",
                           {std::move(producer), Pattern::constant("scale"), Pattern::constant("shift"),
                            Pattern::constant("mean"), Pattern::constant("variance")});
    };
    const auto rows = [](bool bias) {
        return Pattern::op("Reshape|Flatten", {matrix_product(bias)}, "rows").used_once();
    };
    static const std::vector<Rule> rules{
        {norm_of(Pattern::op(linear_types, {Pattern::any(), Pattern::constant("weight")}, "linear").used_once()),
         fold_norm},
        {norm_of(rows(true)), fold_norm_of_rows},
        {norm_of(rows(false)), fold_norm_of_rows}};
    return rewrite(graph, context, rules);
}

//  Conv(W, b)               Conv(W * c, b * c)
//  |               ==>      |
//  Mul(c)                   y
//  |
//  y
//
// c is one number, or one per channel. Likewise Add, Sub (either way round) and Div, behind ConvTranspose and Gemm.
// Behind a MatMul of any rank, and its Add of a bias, Mul and Div by one number a column (layer scale: Touvron, CaiT,
// 2021).
Result<bool> fold_affine(Graph& graph, PassContext& context) {
    const auto linear = [] {
        return Pattern::op(linear_types, {Pattern::any(), Pattern::constant("weight")}, "linear").used_once();
    };
    static const std::vector<Rule> rules{
        {Pattern::op("Mul|Add", {linear(), Pattern::constant("c")}).any_order(), fold_arithmetic},
        {Pattern::op("Sub|Div", {linear(), Pattern::constant("c")}), fold_arithmetic},
        {Pattern::op("Sub", {Pattern::constant("c"), linear()}), fold_arithmetic},
        {Pattern::op("Mul", {matrix_product(true), Pattern::constant("c")}).any_order(), fold_scale_of_columns},
        {Pattern::op("Mul", {matrix_product(false), Pattern::constant("c")}).any_order(), fold_scale_of_columns},
        {Pattern::op("Div", {matrix_product(true), Pattern::constant("c")}), fold_scale_of_columns},
        {Pattern::op("Div", {matrix_product(false), Pattern::constant("c")}), fold_scale_of_columns},
    };
    return rewrite(graph, context, rules);
}

namespace {

bool make_gemm(const Site& site) {
    const Node& product = site.match.node("product");
    const Tensor& weight = site.match.constant("weight");
    const Tensor& bias = site.match.constant("bias");
    const auto info = site.graph.info(product.input(0));
    if (!info || !info->dims || info->dims->size() != 2 || weight.shape().size() != 2) return false;
    // Before opset 7 Gemm broadcasts by attribute; integer Gemm is not what backends are fast at.
    if (site.context.opset < 7 || !is_floating(weight.type()) || bias.type() != weight.type()) return false;
    const Shape& shape = bias.shape();
    const bool is_row =
        shape == Shape{weight.shape()[1]} || shape == Shape{1, weight.shape()[1]} || shape.empty() || shape == Shape{1};
    if (!is_row) return false;
    Node gemm = make_node("Gemm", {product.input(0), product.input(1), site.match.value("bias")});
    become(site.root, std::move(gemm), product);
    return true;
}

} // namespace

//  a: [M, K]   B: [K, N]
//    \         /
//     MatMul               Gemm(a, B, c)
//     |            ==>     |
//     Add(c: [N])          y
//     |
//     y
//
// Only two-dimensional, with B and c constant: one operator that every backend fuses, and into which a
// BatchNormalization or scale behind it folds.
Result<bool> matmul_to_gemm(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Add",
                     {Pattern::op("MatMul", {Pattern::any(), Pattern::constant("weight")}, "product").used_once(),
                      Pattern::constant("bias")})
             .any_order(),
         make_gemm}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
