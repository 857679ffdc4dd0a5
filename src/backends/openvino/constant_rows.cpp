#include "backends/openvino/constant_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/fake_quantize.hpp>
#include <openvino/op/gather.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/less.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/shape_of.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

namespace lathe::openvino {

namespace {

using ConstantNodes = std::unordered_set<const ov::Node*>;

/// Sizes are constant, too, where they are fixed.
bool is_constant(const ov::Node& node, const ConstantNodes& constant) {
    using namespace ov::op;
    if (is_one_of<v0::Constant, v0::ShapeOf, v3::ShapeOf>(node)) return true;
    if (node.get_input_size() == 0 || dynamic_cast<const util::MultiSubGraphOp*>(&node) != nullptr) return false;
    for (std::size_t i = 0; i < node.get_input_size(); ++i)
        if (!constant.contains(node.get_input_node_ptr(i))) return false;
    return true;
}

std::shared_ptr<ov::Node> quantising(const ov::Node& layer) {
    constexpr int most_steps = 16;
    std::shared_ptr<ov::Node> node = layer.get_input_node_shared_ptr(0);
    for (int steps = 0; steps < most_steps && node->get_input_size() > 0; ++steps) {
        if (ov::is_type<ov::op::v0::FakeQuantize>(node)) return node;
        node = node->get_input_node_shared_ptr(0);
    }
    return nullptr;
}

/// 0 of a type, as a scalar: whether an input's first element is less than itself.
ov::Output<ov::Node> computed_zero(const ov::Output<ov::Node>& input, const ov::element::Type& type) {
    using namespace ov::op;
    const auto number = [](std::vector<std::int64_t> numbers, const ov::Shape& shape) {
        return std::make_shared<v0::Constant>(ov::element::i64, shape, numbers);
    };
    const auto line = std::make_shared<v1::Reshape>(input, number({-1}, {1}), false);
    const auto first = std::make_shared<v8::Gather>(line, number({0}, {}), number({0}, {}));
    return std::make_shared<v0::Convert>(std::make_shared<v1::Less>(first, first), type);
}

} // namespace

void keep_constant_rows(ov::Model& model) {
    using namespace ov::op;
    const auto input = std::ranges::find_if(model.get_parameters(), [](const auto& parameter) {
        const ov::element::Type type = parameter->get_element_type();
        return (type.is_real() || type.is_integral_number()) && type != ov::element::boolean;
    });
    if (input == model.get_parameters().end()) return;
    ConstantNodes constant, done;
    for (const auto& node : model.get_ordered_ops()) {
        if (!is_constant(*node, constant)) continue;
        const bool layer = is_one_of<v0::MatMul, v1::Convolution, v1::GroupConvolution>(*node);
        const auto quantise = layer ? quantising(*node) : nullptr;
        if (quantise == nullptr) {
            constant.insert(node.get());
        } else if (done.insert(quantise.get()).second) {
            const ov::Output<ov::Node> value = quantise->input_value(0);
            const auto zero = computed_zero((*input)->output(0), value.get_element_type());
            quantise->input(0).replace_source_output(std::make_shared<v1::Add>(value, zero));
        }
    }
    if (!done.empty()) model.validate_nodes_and_infer_types();
}

std::unordered_set<const ov::Node*> constant_nodes(const ov::Model& model) {
    ConstantNodes constant;
    for (const auto& node : model.get_ordered_ops())
        if (is_constant(*node, constant)) constant.insert(node.get());
    return constant;
}

} // namespace lathe::openvino
