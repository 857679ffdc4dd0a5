#include "passes/channel_affine.hpp"

#include <algorithm>
#include <cmath>

namespace lathe::passes {

std::optional<Affine> affine_of_norm(const Match& match, const Node& norm, std::size_t channels) {
    const auto values = [&](const char* name) {
        const Tensor& tensor = match.constant(name);
        auto found = tensor.to_floats();
        return found.size() == channels && tensor.shape().size() == 1 ? std::optional(std::move(found)) : std::nullopt;
    };
    const auto scale = values("scale");
    const auto shift = values("shift");
    const auto mean = values("mean");
    const auto variance = values("variance");
    if (!scale || !shift || !mean || !variance) return std::nullopt;
    const double epsilon = norm.float_or("epsilon", 1e-5F);
    Affine affine;
    for (std::size_t c = 0; c < channels; ++c) {
        affine.scale.push_back((*scale)[c] / std::sqrt((*variance)[c] + epsilon));
        affine.shift.push_back((*shift)[c] - (*mean)[c] * affine.scale[c]);
    }
    return affine;
}

Affine affine_of_arithmetic(const Match& match, const Node& op, std::span<const double> values) {
    const bool constant_first = op.input(0) == match.value("c");
    Affine affine;
    for (const double value : values) {
        double scale = 1;
        double shift = 0;
        if (op.is("Mul")) scale = value;
        if (op.is("Add")) shift = value;
        if (op.is("Sub")) shift = constant_first ? value : -value;
        if (op.is("Sub") && constant_first) scale = -1;
        if (op.is("Div")) scale = 1 / value;
        affine.scale.push_back(scale);
        affine.shift.push_back(shift);
    }
    return affine;
}

std::optional<std::vector<double>> per_channel(const Tensor& constant, std::size_t rank, std::size_t channels) {
    const Shape& shape = constant.shape();
    if (shape.size() > rank) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const bool is_channel = i + rank - shape.size() == 1;
        if (shape[i] != 1 && !(is_channel && shape[i] == static_cast<std::int64_t>(channels))) return std::nullopt;
    }
    const std::vector<float> values = constant.to_floats();
    if (values.size() == 1) return std::vector<double>(channels, values[0]);
    if (values.size() != channels) return std::nullopt;
    return std::vector<double>(values.begin(), values.end());
}

std::optional<std::vector<double>> along_columns(const Tensor& constant, std::size_t columns, std::size_t rank) {
    const Shape& shape = constant.shape();
    if (shape.empty() || shape.size() > rank || constant.count() != columns ||
        shape.back() != static_cast<std::int64_t>(columns)) {
        return std::nullopt;
    }
    const std::vector<float> values = constant.to_floats();
    return std::vector<double>(values.begin(), values.end());
}

bool is_inference(const Node& norm, std::int64_t opset) {
    const bool one_output =
        std::all_of(norm.outputs.begin() + 1, norm.outputs.end(), [](const std::string& name) { return name.empty(); });
    // Before opset 7 is_test decides; before 9 spatial may ask for statistics per element.
    return one_output && opset >= 7 && norm.int_or("training_mode", 0) == 0 && norm.int_or("spatial", 1) == 1;
}

std::optional<Linear> linear_of(const Graph& graph, const Node& node) {
    Linear linear;
    linear.weight = graph.constant(node.input(1));
    if (linear.weight == nullptr || linear.weight->count() == 0) return std::nullopt;
    const Shape& shape = linear.weight->shape();
    const std::int64_t groups = node.int_or("group", 1);
    if (node.is("Gemm") || node.is("MatMul")) {
        if (shape.size() != 2) return std::nullopt;
        linear.channels = static_cast<std::size_t>(node.int_or("transB", 0) != 0 ? shape[0] : shape[1]);
        linear.bias_factor = node.float_or("beta", 1);
    } else if (shape.size() < 3 || groups < 1 || shape[0] % groups != 0) {
        return std::nullopt;
    } else {
        linear.channels = static_cast<std::size_t>(node.is("Conv") ? shape[0] : shape[1] * groups);
    }
    if (!node.input(2).empty()) {
        linear.bias = graph.constant(node.input(2));
        // Gemm's C may be a matrix; only one value a column can take a scale by column.
        if (linear.bias == nullptr || linear.bias->type() != linear.weight->type()) return std::nullopt;
        const std::size_t count = linear.bias->count();
        const bool is_row =
            !linear.bias->shape().empty() && linear.bias->shape().back() == static_cast<std::int64_t>(count);
        if (count != 1 && (count != linear.channels || !is_row)) return std::nullopt;
    }
    return linear;
}

std::size_t output_channel(const Node& node, const Linear& linear, std::size_t i) {
    const Shape& shape = linear.weight->shape();
    if (node.is("Conv")) return i / (linear.weight->count() / linear.channels);
    const auto columns = static_cast<std::size_t>(shape[1]);
    if (shape.size() == 2) return node.int_or("transB", 0) != 0 ? i / columns : i % columns;
    // ConvTranspose: [input channels, output channels of a group, kernel...]; the input channel tells the group.
    const std::size_t kernel = linear.weight->count() / static_cast<std::size_t>(shape[0]) / columns;
    const std::size_t input_channel = i / kernel / columns;
    const auto groups = static_cast<std::size_t>(node.int_or("group", 1));
    const std::size_t group = input_channel / (static_cast<std::size_t>(shape[0]) / groups);
    return group * columns + i / kernel % columns;
}

std::size_t input_channels(const Node& node, const Linear& linear) {
    const std::size_t of_a_result = linear.weight->count() / linear.channels;
    if (!node.is("Conv")) return of_a_result;
    return static_cast<std::size_t>(linear.weight->shape()[1] * node.int_or("group", 1));
}

std::size_t input_channel(const Node& node, const Linear& linear, std::size_t i) {
    const std::size_t of_a_result = linear.weight->count() / linear.channels;
    if (!node.is("Conv")) return node.int_or("transB", 0) != 0 ? i % of_a_result : i / linear.channels;
    // [output channels, input channels of a group, kernel...]; the output channel tells the group.
    const auto of_a_group = static_cast<std::size_t>(linear.weight->shape()[1]);
    const auto groups = static_cast<std::size_t>(node.int_or("group", 1));
    const std::size_t group = i / of_a_result / (linear.channels / groups);
    return group * of_a_group + i % of_a_result / (of_a_result / of_a_group);
}

} // namespace lathe::passes
