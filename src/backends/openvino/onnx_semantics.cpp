#include "backends/openvino/onnx_semantics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "backends/openvino/quantised_semantics.hpp"
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

/// -0: a zero that OpenVINO does not take for a pool's own padding, since it looks at the bits.
std::optional<Tensor> negative_zero(DataType type) {
    const std::size_t bytes = byte_size(type, 1);
    if (!is_floating(type) || bytes < 2) return std::nullopt;
    std::vector<std::byte> bits(bytes);
    bits.back() = std::byte{0x80}; // little-endian, the sign first
    return Tensor("", type, {}, bits);
}

/// As many strides and dilations as the kernel has sizes, all of them and the padding numbers that can be reckoned
/// with.
bool are_windows(const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& strides,
                 const std::vector<std::int64_t>& dilations, const std::vector<std::int64_t>& pads) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    const auto fits = [&](std::int64_t least) {
        return [=](std::int64_t number) { return number >= least && number <= most; };
    };
    return strides.size() == kernel.size() && dilations.size() == kernel.size() && pads.size() == 2 * kernel.size() &&
           std::ranges::all_of(kernel, fits(1)) && std::ranges::all_of(strides, fits(1)) &&
           std::ranges::all_of(dilations, fits(1)) && std::ranges::all_of(pads, fits(0));
}

/// Whether the last window may begin behind the input, in its padding, where ONNX leaves it out: that depends on the
/// padding being the pool's own.
bool may_end_in_padding(const Graph& graph, const Node& node, const std::vector<std::int64_t>& pads) {
    const auto kernel = node.ints_or("kernel_shape", {});
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(kernel.size(), 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(kernel.size(), 1));
    const auto info = graph.info(node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    if (!are_windows(kernel, strides, dilations, pads)) return false; // refused by who reads it
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::int64_t covers = (kernel[i] - 1) * dilations[i] + 1, end = pads[i + kernel.size()];
        if (strides[i] + end <= covers) continue; // never
        if (!shape || shape->size() != kernel.size() + 2 || (*shape)[i + 2] < 0) return true;
        const std::int64_t from = (*shape)[i + 2] + pads[i];
        const std::int64_t last = (from + end - covers + strides[i] - 1) / strides[i] * strides[i];
        if (last >= from) return true;
    }
    return false;
}

//  AveragePool of a whole image of few channels   ==>   GlobalAveragePool
// Of bytes, put into another scale behind it, OpenVINO's kernel for AVX2 gives the largest instead of the mean where
// there are fewer than 16 channels and one pixel is left.
Nodes average_of_all(const Graph& graph, const Node& node) {
    constexpr std::int64_t least_channels = 16;
    const auto dims = graph.info_or_name(node.input(0)).shape();
    const auto kernel = node.ints_or("kernel_shape", {}), pads = node.ints_or("pads", {});
    const std::string padding = node.string_or("auto_pad", "NOTSET");
    if (!dims || dims->size() != kernel.size() + 2 || (*dims)[1] < 1 || (*dims)[1] >= least_channels ||
        (padding != "NOTSET" && padding != "VALID") ||
        std::ranges::any_of(pads, [](std::int64_t n) { return n != 0; }) ||
        std::ranges::any_of(node.ints_or("dilations", {}), [](std::int64_t n) { return n != 1; }) ||
        !std::equal(kernel.begin(), kernel.end(), dims->begin() + 2))
        return {};
    return {made("GlobalAveragePool", {node.input(0)}, node.output(0))};
}

//  x ──▶ AveragePool(pads, ceil_mode, count_include_pad) ──▶ y
//    ==>   x ──▶ Pad ──▶ AveragePool(ceil_mode) ──▶ y
// The divisor is then the number of elements of the padded input under the window, as ONNX and PyTorch have it.
Nodes padded_average(Graph& graph, const Node& node, std::int64_t opset) {
    const auto pads = node.ints_or("pads", {});
    const bool padded = std::ranges::any_of(pads, [](std::int64_t n) { return n > 0; });
    const auto zero = negative_zero(type_of(graph, node.input(0)));
    if (may_end_in_padding(graph, node, pads)) return {};
    if (node.int_or("ceil_mode", 0) == 0 || node.int_or("count_include_pad", 0) == 0 || !padded || !zero || opset < 11)
        return {};
    const std::size_t spatial = pads.size() / 2;
    std::vector<std::int64_t> all(2 * (spatial + 2), 0);
    std::copy_n(pads.begin(), spatial, all.begin() + 2);
    std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(spatial), spatial,
                all.begin() + static_cast<std::ptrdiff_t>(spatial) + 4);
    const std::string& stem = node.output(0);
    const std::string wide = graph.unique_name(stem + "_padded");
    const auto count = static_cast<std::int64_t>(all.size());
    const std::string sizes = add_constant(graph, stem + "_pads", Tensor::of_int64s("", {count}, all));
    Node pool = node;
    pool.inputs[0] = wide;
    pool.erase_attribute("pads");
    pool.erase_attribute("count_include_pad");
    return {made("Pad", {node.input(0), sizes, add_constant(graph, stem + "_zero", *zero)}, wide), std::move(pool)};
}

//  MaxPool(pads, ceil_mode)   ==>   MaxPool(other pads at the end), with as many windows as ONNX has
// OpenVINO also has those that begin behind the input, and gives the least number for them. More padding is harmless:
// it is no element.
Nodes windows_that_begin_inside(const Graph& graph, const Node& node) {
    const auto kernel = node.ints_or("kernel_shape", {});
    const std::string way = node.string_or("auto_pad", "NOTSET");
    auto pads = std::vector<std::int64_t>(2 * kernel.size(), 0);
    if (way == "NOTSET") pads = node.ints_or("pads", pads);
    const auto info = graph.info(node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    const bool closed = shape && std::ranges::none_of(*shape, [](std::int64_t size) { return size < 0; });
    if (node.int_or("ceil_mode", 0) == 0 || (way != "NOTSET" && way != "VALID") || !closed ||
        shape->size() != kernel.size() + 2 || pads.size() != 2 * kernel.size() ||
        !may_end_in_padding(graph, node, pads))
        return {};
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(kernel.size(), 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(kernel.size(), 1));
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::int64_t covers = (kernel[i] - 1) * dilations[i] + 1, from = (*shape)[i + 2] + pads[i];
        std::int64_t last = (from + pads[i + kernel.size()] - covers + strides[i] - 1) / strides[i];
        if (last * strides[i] >= from) --last;
        pads[i + kernel.size()] = std::max<std::int64_t>(0, last * strides[i] + covers - from);
    }
    Node pool = node;
    pool.erase_attribute("ceil_mode");
    pool.erase_attribute("auto_pad");
    pool.set("pads", pads);
    return {std::move(pool)};
}

//  ConvTranspose(auto_pad = SAME_...)   ==>   ConvTranspose(pads, output_padding)
// ONNX's output is the input's size times the stride; where the kernel is smaller than the stride, OpenVINO's is less.
Nodes enlarged_by_stride(const Graph& graph, const Node& node) {
    const std::string way = node.string_or("auto_pad", "NOTSET");
    const auto info = graph.info(node.input(1));
    const auto weights = info ? info->shape() : std::nullopt;
    auto kernel = node.ints_or("kernel_shape", {});
    if (kernel.empty() && weights && weights->size() > 2) kernel.assign(weights->begin() + 2, weights->end());
    if (!way.starts_with("SAME_") || kernel.empty() || node.attribute("output_shape") != nullptr ||
        node.attribute("output_padding") != nullptr)
        return {};
    const std::size_t count = kernel.size();
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(count, 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(count, 1));
    std::vector<std::int64_t> pads(2 * count), more(count);
    if (!are_windows(kernel, strides, dilations, pads)) return {};
    bool smaller = false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t beyond = (kernel[i] - 1) * dilations[i] + 1 - strides[i];
        smaller = smaller || beyond < 0;
        more[i] = std::max<std::int64_t>(0, -beyond);
        const std::int64_t all = std::max<std::int64_t>(0, beyond), less = all / 2;
        pads[i] = way == "SAME_UPPER" ? less : all - less;
        pads[count + i] = all - pads[i];
    }
    if (!smaller) return {};
    Node changed = node;
    changed.erase_attribute("auto_pad");
    changed.set("pads", pads);
    changed.set("output_padding", more);
    return {std::move(changed)};
}

/// Whether what a Pad from opset 11 on fills with is the constant 0.
bool fills_with_zero(const Graph& graph, const Node& pad) {
    if (pad.string_or("mode", "constant") != "constant") return false;
    if (pad.input(2).empty()) return true;
    const Tensor* value = graph.constant(pad.input(2));
    return value != nullptr && std::ranges::all_of(value->bytes(), [](std::byte b) { return b == std::byte{0}; });
}

/// A Pad with 0 that a MaxPool reads keeps its zeros.
Nodes kept_zeros(Graph& graph, const Node& node, std::int64_t opset) {
    if (opset < 11 || !fills_with_zero(graph, node)) return {};
    const auto zero = negative_zero(type_of(graph, node.input(0)));
    if (!zero) return {};
    Node pad = node;
    pad.inputs.resize(std::max<std::size_t>(pad.inputs.size(), 3));
    pad.inputs[2] = add_constant(graph, node.output(0) + "_zero", *zero);
    return {std::move(pad)};
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
        if (reader->is("Cast") || reader->is("Identity"))
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

bool feeds_max_pool(const Graph& graph, const Node& pad) {
    return std::ranges::any_of(
        graph.nodes, [&](const auto& reader) { return reader->is("MaxPool") && reader->input(0) == pad.output(0); });
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

Nodes instead_of(Graph& graph, const Node& node, std::int64_t opset, const QuantisedSemantics& quantised,
                 const HardGates& gates) {
    if (Nodes nodes = gates.instead_of(graph, node, opset); !nodes.empty()) return nodes;
    if (Nodes nodes = quantised.instead_of(graph, node); !nodes.empty()) return nodes;
    if (node.is("ReduceMax") || node.is("ReduceMin")) return infinite_extreme(graph, node);
    if (node.is("NonMaxSuppression")) return dropped_beyond_threshold(graph, node);
    if (node.is("Softmax") && opset < 13) return coerced_softmax(graph, node);
    if (node.is("ConvTranspose")) return enlarged_by_stride(graph, node);
    if (node.is("MaxPool")) return windows_that_begin_inside(graph, node);
    if (node.is("Resize")) return counted_from_the_front(graph, node);
    if (Nodes nodes = compared_wide(graph, node); !nodes.empty()) return nodes;
    if (node.is("AveragePool")) {
        if (Nodes nodes = average_of_all(graph, node); !nodes.empty()) return nodes;
        return padded_average(graph, node, opset);
    }
    if (node.is("Pad") && feeds_max_pool(graph, node)) return kept_zeros(graph, node, opset);
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
            write_onnx_semantics(body, opset);
        });
    }
    const QuantisedSemantics quantised(graph);
    const HardGates gates(graph);
    replace_each(graph, [&](const Node& node) { return instead_of(graph, node, opset, quantised, gates); });
}

} // namespace lathe::openvino
