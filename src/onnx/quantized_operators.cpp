// Operators on quantised tensors (ONNX's QLinear*, ONNX Runtime's of com.microsoft) as QuantizeLinear and
// DequantizeLinear around the operator that they compute.

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/node_writer.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

constexpr std::int64_t first_opset_by_axis = 13; ///< DequantizeLinear with a scale for each channel

/// A tensor with its scale and zero point, as three inputs in a row (or two and a type).
struct Quantised {
    std::string value, scale, zero_point;
};

/// Knows tensors with their scales.
class Writer : public NodeWriter {
public:
    using NodeWriter::NodeWriter;

    Quantised at(std::size_t index) const {
        return {node().input(index), node().input(index + 1), node().input(index + 2)};
    }
    bool by_axis() const { return by_axis_; }

    /// The number of elements of a constant; 1 for what is computed, which only one number for a tensor is.
    std::size_t count(const std::string& value) const {
        const Tensor* tensor = graph().constant(value);
        return tensor == nullptr ? 1 : tensor->count();
    }

    /// `axis`: of what has a scale for each channel.
    std::string dequantised(const Quantised& of, std::int64_t axis = 0) {
        Node node = made("DequantizeLinear", {of.value, one_number(of.scale)});
        if (!of.zero_point.empty()) node.inputs.push_back(one_number(of.zero_point));
        if (count(of.scale) > 1) {
            node.set("axis", axis);
            by_axis_ = true;
        }
        return give(std::move(node), "float");
    }

    /// What the operator gives: quantised as its node says.
    void quantise(const std::string& value, const std::string& scale, std::string zero_point, const Quantised& like) {
        if (zero_point.empty()) zero_point = zero_like(like);
        put(made("QuantizeLinear", {value, one_number(scale), one_number(zero_point)}), {node().output(0)});
    }

    /// Integer sums in the product of two scales as floats, if all are constant.
    std::optional<std::string> bias(const std::string& sums, const std::string& left, const std::string& right) {
        const Tensor *values = graph().constant(sums), *a = graph().constant(left), *b = graph().constant(right);
        if (values == nullptr || a == nullptr || b == nullptr || a->type() != DataType::float32) return std::nullopt;
        const auto integers = values->to_int64s();
        const auto by = a->to_floats(), scales = b->to_floats();
        const bool fits = by.size() == 1 && (scales.size() == 1 || scales.size() == integers.size());
        if (values->type() != DataType::int32 || !fits) return std::nullopt;
        std::vector<float> floats(integers.size());
        for (std::size_t i = 0; i < floats.size(); ++i) {
            const double scale = double{by[0]} * double{scales[scales.size() == 1 ? 0 : i]};
            floats[i] = static_cast<float>(static_cast<double>(integers[i]) * scale);
        }
        return add(sums + "_float", Tensor::of_floats("", values->shape(), floats));
    }

    /// A constant with one element has no dimensions in what ONNX calls "per tensor".
    std::string one_number(const std::string& value) {
        const Tensor* tensor = graph().constant(value);
        if (tensor == nullptr || tensor->count() != 1 || tensor->shape().empty()) return value;
        return add(value + "_scalar", tensor->reshaped({}));
    }

private:
    /// Zero in the type of another tensor, which is unsigned where nothing says otherwise.
    std::string zero_like(const Quantised& like) {
        const std::string& of = like.zero_point.empty() ? like.value : like.zero_point;
        const DataType type = graph().info_or_name(of).type == DataType::int8 ? DataType::int8 : DataType::uint8;
        constexpr std::array<std::int8_t, 1> zero{0};
        return add("zero", Tensor::of("", type, {}, std::span<const std::int8_t>(zero)));
    }

    bool by_axis_ = false;
};

/// Writes the nodes; false where the node is used in a way that has no such form here.
using Form = std::function<bool(Writer&)>;

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias
bool convolution(Writer& to) {
    const Node& node = to.node();
    if (node.int_or("channels_last", 0) != 0) return false;
    Node conv = made("Conv", {to.dequantised(to.at(0)), to.dequantised(to.at(3), 0)});
    if (!node.input(8).empty()) {
        auto bias = to.bias(node.input(8), node.input(1), node.input(4));
        if (!bias) return false;
        conv.inputs.push_back(std::move(*bias));
    }
    copy_attributes(node, conv, {"channels_last"});
    to.quantise(to.give(std::move(conv), "sum"), node.input(6), node.input(7), to.at(0));
    return true;
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
bool matrix_product(Writer& to) {
    const Node& node = to.node();
    if (to.count(node.input(1)) != 1) return false; // a scale for each row
    Node product = made("MatMul", {to.dequantised(to.at(0)), to.dequantised(to.at(3), -1)});
    to.quantise(to.give(std::move(product), "sum"), node.input(6), node.input(7), to.at(0));
    return true;
}

// A, a_scale, a_zero, B, b_scale, b_zero, C, y_scale, y_zero; without y_scale the result is in floats
bool gemm(Writer& to) {
    const Node& node = to.node();
    if (to.count(node.input(1)) != 1) return false;
    const bool turned = node.int_or("transB", 0) != 0;
    Node product = made("Gemm", {to.dequantised(to.at(0)), to.dequantised(to.at(3), turned ? 0 : 1)});
    const float alpha = node.float_or("alpha", 1);
    if (!node.input(6).empty()) {
        auto bias = to.bias(node.input(6), node.input(1), node.input(4));
        if (!bias) return false;
        product.inputs.push_back(std::move(*bias));
        product.set("beta", alpha);
    }
    copy_attributes(node, product);
    if (node.input(7).empty()) {
        to.put(std::move(product), {node.output(0)});
    } else {
        to.quantise(to.give(std::move(product), "sum"), node.input(7), node.input(8), to.at(0));
    }
    return true;
}

// A, a_scale, a_zero, B, b_scale, b_zero, y_scale, y_zero
Form of_two(std::string type) {
    return [type = std::move(type)](Writer& to) {
        const Node& node = to.node();
        Node both = made(type, {to.dequantised(to.at(0)), to.dequantised(to.at(3))});
        to.quantise(to.give(std::move(both), "float"), node.input(6), node.input(7), to.at(0));
        return true;
    };
}

// X, x_scale, x_zero, y_scale, y_zero
Form of_one(std::string type, std::vector<std::string_view> own = {}) {
    return [type = std::move(type), own = std::move(own)](Writer& to) {
        const Node& node = to.node();
        if (node.int_or("channels_last", 0) != 0) return false;
        Node one = made(type, {to.dequantised(to.at(0))});
        copy_attributes(node, one, own);
        to.quantise(to.give(std::move(one), "float"), node.input(3), node.input(4), to.at(0));
        return true;
    };
}

bool softmax(Writer& to) {
    const Node& node = to.node();
    const std::int64_t axis = node.int_or("axis", -1); // the default of ONNX's own differs before opset 13
    // Before opset 13 all axes from `axis` on are one, which for the last is the same.
    const bool by_one_axis = node.int_or("opset", 0) >= first_opset_by_axis;
    if (axis != -1 && by_one_axis != (to.opset() >= first_opset_by_axis)) return false;
    Node same = made("Softmax", {to.dequantised(to.at(0))});
    same.set("axis", axis);
    to.quantise(to.give(std::move(same), "float"), node.input(3), node.input(4), to.at(0));
    return true;
}

bool mean(Writer& to) {
    constexpr std::int64_t axes_are_an_input = 18;
    return to.opset() < axes_are_an_input && of_one("ReduceMean")(to);
}

// y_scale, y_zero, then for each tensor: X, x_scale, x_zero
bool concat(Writer& to) {
    const Node& node = to.node();
    Node joined = made("Concat", {});
    for (std::size_t i = 2; i + 1 < node.inputs.size(); i += 3)
        joined.inputs.push_back(to.dequantised(to.at(i)));
    if (joined.inputs.empty()) return false;
    copy_attributes(node, joined);
    to.quantise(to.give(std::move(joined), "float"), node.input(0), node.input(1), to.at(2));
    return true;
}

// condition, X, x_scale, x_zero, Y, y_scale, y_zero, z_scale, z_zero
bool where(Writer& to) {
    const Node& node = to.node();
    Node chosen = made("Where", {node.input(0), to.dequantised(to.at(1)), to.dequantised(to.at(4))});
    to.quantise(to.give(std::move(chosen), "float"), node.input(7), node.input(8), to.at(1));
    return true;
}

/// A product in floats, and the bias behind it, if there is one.
void biased_product(Writer& to, Node product, const std::string& bias) {
    if (bias.empty()) return to.put(std::move(product), {to.node().output(0)});
    to.put(made("Add", {to.give(std::move(product), "sum"), bias}), {to.node().output(0)});
}

// A, B, b_scale, b_zero, bias: A is quantised as it comes
bool dynamic_product(Writer& to) {
    const Node& node = to.node();
    const std::string value = to.give(made("DynamicQuantizeLinear", {node.input(0)}), "quantised");
    Node& dynamic = to.nodes().back();
    const Quantised left{value, value + "_scale", value + "_zero"};
    dynamic.outputs = {left.value, left.scale, left.zero_point};
    Node product = made("MatMul", {to.dequantised(left), to.dequantised(to.at(1), -1)});
    biased_product(to, std::move(product), node.input(4));
    return true;
}

// A, B, a_scale, b_scale, a_zero, b_zero, bias
bool product_to_float(Writer& to) {
    const Node& node = to.node();
    if (to.count(node.input(2)) != 1) return false;
    Node product = made("MatMul", {to.dequantised({node.input(0), node.input(2), node.input(4)}),
                                   to.dequantised({node.input(1), node.input(3), node.input(5)}, -1)});
    biased_product(to, std::move(product), node.input(6));
    return true;
}

/// ONNX Runtime's own QuantizeLinear and DequantizeLinear are ONNX's for all types that ONNX's had then.
bool standard(Writer& to) {
    constexpr std::int64_t more_types = 21;
    const Node& node = to.node();
    if (node.inputs.size() < 2 ||
        (to.opset() < more_types && node.input(2).empty() && node.op_type == "QuantizeLinear"))
        return false;
    Node same = made(node.op_type, node.inputs);
    for (std::size_t i = 1; i < same.inputs.size(); ++i)
        same.inputs[i] = to.one_number(same.inputs[i]);
    copy_attributes(node, same);
    to.put(std::move(same), node.outputs);
    return true;
}

using Forms = std::map<std::string, Form, std::less<>>;

const Forms& onnx_forms() {
    static const Forms forms{{"QLinearConv", convolution}, {"QLinearMatMul", matrix_product}};
    return forms;
}

// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
const Forms& onnxruntime_forms() {
    static const Forms forms{
        {"DequantizeLinear", standard},
        {"DynamicQuantizeMatMul", dynamic_product},
        {"MatMulIntegerToFloat", product_to_float},
        {"QGemm", gemm},
        {"QLinearAdd", of_two("Add")},
        {"QLinearAveragePool", of_one("AveragePool", {"channels_last"})},
        {"QLinearConcat", concat},
        {"QLinearConv", convolution},
        {"QLinearGlobalAveragePool", of_one("GlobalAveragePool", {"channels_last"})},
        {"QLinearLeakyRelu", of_one("LeakyRelu")},
        {"QLinearMul", of_two("Mul")},
        {"QLinearReduceMean", mean},
        {"QLinearSigmoid", of_one("Sigmoid")},
        {"QLinearSoftmax", softmax},
        {"QLinearWhere", where},
        {"QuantizeLinear", standard},
    };
    return forms;
}

const Form* form_of(const Node& node) {
    const bool is_onnx = node.domain.empty();
    if (!is_onnx && node.domain != "com.microsoft") return nullptr;
    const Forms& forms = is_onnx ? onnx_forms() : onnxruntime_forms();
    const auto found = forms.find(node.op_type);
    return found == forms.end() ? nullptr : &found->second;
}

} // namespace

Result<std::size_t> write_out_quantized_operators(Model& model) {
    bool by_axis = false; // needs opset 13
    const std::int64_t opset = model.opset();
    const std::size_t count =
        write_out_nodes(model.graph, [&](Graph& graph, const Node& node) -> std::optional<std::vector<Node>> {
            const Form* form = node.outputs.size() == 1 ? form_of(node) : nullptr;
            if (form == nullptr) return std::nullopt;
            Writer writer(graph, node, opset);
            if (!(*form)(writer)) return std::nullopt;
            by_axis = by_axis || writer.by_axis();
            return std::move(writer.nodes());
        });
    if (by_axis && opset < first_opset_by_axis) LATHE_CHECK(convert_opset(model, first_opset_by_axis));
    return count;
}

} // namespace lathe
