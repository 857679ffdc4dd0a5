#include "quantize/ops.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {
namespace {

template <std::size_t N>
bool one_of(const Node& node, const std::array<std::string_view, N>& types) {
    return node.domain.empty() && std::ranges::find(types, node.op_type) != types.end();
}

const Node* producer_of(const Graph& graph, const std::string& value) {
    for (const auto& node : graph.nodes) {
        if (std::ranges::find(node->outputs, value) != node->outputs.end()) return node.get();
    }
    return nullptr;
}

std::optional<Tensor> constant_node_value(const Node& node) {
    if (const Attribute* value = node.attribute("value")) {
        if (const auto* tensor = std::get_if<Tensor>(&value->value)) return *tensor;
    }
    if (const Attribute* value = node.attribute("value_float")) {
        if (const auto* number = std::get_if<float>(&value->value)) {
            return Tensor::of_floats(node.output(0), {}, std::span(number, 1));
        }
    }
    if (const Attribute* value = node.attribute("value_ints")) {
        if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value->value)) {
            return Tensor::of_int64s(node.output(0), {static_cast<std::int64_t>(numbers->size())}, *numbers);
        }
    }
    return std::nullopt;
}

std::optional<std::vector<std::int64_t>> constant_ints(const Graph& graph, const std::string& value) {
    const Constant constant = resolve_constant(graph, value);
    const auto* tensor = std::get_if<Tensor>(&constant);
    if (tensor == nullptr) return std::nullopt;
    return tensor->to_int64s();
}

std::optional<Tensor> transpose(const Tensor& tensor, std::vector<std::int64_t> order) {
    const Shape& shape = tensor.shape();
    const std::size_t rank = shape.size();
    const std::size_t item = bit_width(tensor.type()) / 8;
    if (item == 0 || bit_width(tensor.type()) % 8 != 0) return std::nullopt;
    if (order.empty()) {
        order.resize(rank);
        std::iota(order.rbegin(), order.rend(), 0);
    }
    std::vector<std::int64_t> sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        if (sorted[i] != static_cast<std::int64_t>(i)) return std::nullopt;
    }
    if (order.size() != rank) return std::nullopt;

    std::vector<std::size_t> strides(rank, 1);
    for (std::size_t i = rank; i-- > 1;)
        strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
    Shape new_shape(rank);
    std::vector<std::size_t> steps(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        new_shape[i] = shape[static_cast<std::size_t>(order[i])];
        steps[i] = strides[static_cast<std::size_t>(order[i])];
    }
    std::vector<std::byte> out(tensor.bytes().size());
    std::vector<std::int64_t> index(rank, 0);
    std::size_t from = 0;
    for (std::size_t to = 0; to < tensor.count(); ++to) {
        std::memcpy(&out[to * item], &tensor.bytes()[from * item], item);
        for (std::size_t axis = rank; axis-- > 0;) {
            from += steps[axis];
            if (++index[axis] < new_shape[axis]) break;
            from -= steps[axis] * static_cast<std::size_t>(new_shape[axis]);
            index[axis] = 0;
        }
    }
    return Tensor(tensor.name, tensor.type(), std::move(new_shape), out);
}

/// Reshape's target with 0 (copy) and -1 (infer) filled in; nothing if it does not fit.
std::optional<Shape> reshaped(const Shape& from, Shape target, bool allow_zero) {
    const std::int64_t count = element_count(from);
    std::int64_t known = 1;
    std::optional<std::size_t> inferred;
    for (std::size_t i = 0; i < target.size(); ++i) {
        if (target[i] == 0 && !allow_zero) {
            if (i >= from.size()) return std::nullopt;
            target[i] = from[i];
        }
        if (target[i] == -1) {
            if (inferred) return std::nullopt;
            inferred = i;
        } else {
            known *= target[i];
        }
    }
    if (inferred) {
        if (known == 0 || count % known != 0) return std::nullopt;
        target[*inferred] = count / known;
        known *= target[*inferred];
    }
    if (known != count) return std::nullopt;
    return target;
}

std::optional<Shape> shape_after(const Graph& graph, const Node& node, const Shape& shape) {
    if (node.is("Reshape")) {
        const auto target = constant_ints(graph, node.input(1));
        if (!target) return std::nullopt;
        return reshaped(shape, *target, node.int_or("allowzero", 0) != 0);
    }
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (node.is("Flatten")) {
        std::int64_t axis = node.int_or("axis", 1);
        if (axis < 0) axis += rank;
        if (axis < 0 || axis > rank) return std::nullopt;
        const auto split = shape.begin() + axis;
        return Shape{element_count(Shape(shape.begin(), split)), element_count(Shape(split, shape.end()))};
    }
    if (node.is("Squeeze") || node.is("Unsqueeze")) {
        // Axes are an attribute before opset 13 and an input since.
        std::vector<std::int64_t> axes = node.ints_or("axes", {});
        if (axes.empty() && !node.input(1).empty()) {
            const auto given = constant_ints(graph, node.input(1));
            if (!given) return std::nullopt;
            axes = *given;
        }
        const bool squeeze = node.is("Squeeze");
        const std::int64_t final_rank = squeeze ? rank : rank + static_cast<std::int64_t>(axes.size());
        for (std::int64_t& axis : axes) {
            if (axis < 0) axis += final_rank;
            if (axis < 0 || axis >= final_rank) return std::nullopt;
        }
        const auto listed = [&](std::int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); };
        Shape result;
        std::size_t next = 0;
        for (std::int64_t i = 0; i < final_rank; ++i) {
            if (!squeeze) {
                if (!listed(i) && next >= shape.size()) return std::nullopt;
                result.push_back(listed(i) ? 1 : shape[next++]);
            } else if (axes.empty() ? shape[static_cast<std::size_t>(i)] != 1 : !listed(i)) {
                result.push_back(shape[static_cast<std::size_t>(i)]);
            }
        }
        if (element_count(result) != element_count(shape)) return std::nullopt;
        return result;
    }
    return std::nullopt;
}

bool pads_with_zero(const Graph& graph, const Node& node) {
    if (node.string_or("mode", "constant") != "constant") return true;
    if (node.input(2).empty()) return node.float_or("value", 0.0F) == 0.0F;
    const Constant value = resolve_constant(graph, node.input(2));
    const auto* tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) return false;
    const std::vector<float> numbers = tensor->to_floats();
    return numbers.size() == 1 && numbers.front() == 0.0F;
}

/// Sizes of a convolution's filters, also of those that a DequantizeLinear gives; empty where they are not constant.
Shape filter_sizes(const Graph& graph, const Node& conv) {
    const Node* source = producer_of(graph, conv.input(1));
    const bool quantized = source != nullptr && source->is("DequantizeLinear");
    const Constant filters = resolve_constant(graph, quantized ? source->input(0) : conv.input(1));
    const auto* tensor = std::get_if<Tensor>(&filters);
    return tensor != nullptr ? tensor->shape() : Shape{};
}

} // namespace

bool is_heavy(const Node& node) {
    return one_of(node, std::array<std::string_view, 4>{"Conv", "ConvTranspose", "Gemm", "MatMul"});
}

std::optional<std::size_t> bias_input(const Node& node) {
    if (!is_heavy(node) || node.is("MatMul")) return std::nullopt;
    return 2;
}

bool is_fused_activation(const Node& node) {
    return one_of(node, std::array<std::string_view, 8>{"Relu", "Clip", "LeakyRelu", "PRelu", "Elu", "HardSigmoid",
                                                        "HardSwish", "Sigmoid"});
}

bool is_clipping(const Node& node) { return one_of(node, std::array<std::string_view, 2>{"Relu", "Clip"}); }

bool starts_at_zero(const Graph& graph, const Node& node) {
    if (node.is("Relu")) return true;
    if (!node.is("Clip") || node.input(1).empty()) return false;
    const Constant low = resolve_constant(graph, node.input(1));
    const auto* tensor = std::get_if<Tensor>(&low);
    return tensor != nullptr && tensor->type() == DataType::float32 && tensor->count() == 1 &&
           tensor->to_floats()[0] == 0.0F;
}

bool is_unpadded(const Graph& graph, const Node& conv) {
    const std::string how = conv.string_or("auto_pad", "NOTSET");
    if (how == "VALID") return true;
    if (how == "SAME_UPPER" || how == "SAME_LOWER") {
        const Shape filters = filter_sizes(graph, conv);
        return filters.size() > 2 &&
               std::all_of(filters.begin() + 2, filters.end(), [](std::int64_t n) { return n == 1; });
    }
    return std::ranges::all_of(conv.ints_or("pads", {}), [](std::int64_t n) { return n == 0; });
}

bool is_depthwise(const Graph& graph, const Node& conv) {
    const Shape filters = filter_sizes(graph, conv);
    return filters.size() > 2 && filters[1] == 1 && filters[0] > 1 && conv.int_or("group", 1) == filters[0];
}

bool is_average_pool(const Node& node) {
    return one_of(node, std::array<std::string_view, 2>{"AveragePool", "GlobalAveragePool"});
}

bool is_pass_through(const Graph& graph, const Node& node) {
    if (node.is("Pad")) return pads_with_zero(graph, node);
    if (node.is("Resize") || node.is("Upsample")) return node.string_or("mode", "nearest") == "nearest";
    if (node.is("MaxPool")) return node.output(1).empty(); // the indices' order must not depend on rounding
    if (node.is("Dropout")) return node.output(1).empty() && node.input(2).empty();
    return one_of(node, std::array<std::string_view, 14>{"Reshape", "Transpose", "Slice", "Flatten", "Squeeze",
                                                         "Unsqueeze", "Identity", "Split", "Gather", "DepthToSpace",
                                                         "SpaceToDepth", "Expand", "Tile", "GlobalMaxPool"});
}

Constant resolve_constant(const Graph& graph, const std::string& value) {
    if (graph.initializer(value) != nullptr) {
        if (const Tensor* tensor = graph.constant(value)) return *tensor;
        return Reason::weight_overridable;
    }
    const Node* node = producer_of(graph, value);
    if (node == nullptr || node->output(0) != value) return Reason::weight_not_constant;
    if (node->is("Constant")) {
        if (auto tensor = constant_node_value(*node)) return *std::move(tensor);
        return Reason::weight_not_constant;
    }
    const bool moves = node->is("Identity") || node->is("Reshape") || node->is("Transpose") || node->is("Squeeze") ||
                       node->is("Unsqueeze") || node->is("Flatten");
    if (!moves) return Reason::weight_not_constant;
    Constant source = resolve_constant(graph, node->input(0));
    const auto* tensor = std::get_if<Tensor>(&source);
    if (tensor == nullptr || node->is("Identity")) return source;
    if (node->is("Transpose")) {
        if (auto turned = transpose(*tensor, node->ints_or("perm", {}))) return *std::move(turned);
        return Reason::weight_not_constant;
    }
    if (const auto shape = shape_after(graph, *node, tensor->shape())) return tensor->reshaped(*shape);
    return Reason::weight_not_constant;
}

} // namespace lathe
