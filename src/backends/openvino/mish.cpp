#include "backends/openvino/mish.hpp"

#include <cstddef>
#include <memory>
#include <string_view>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/divide.hpp>
#include <openvino/op/exp.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/minimum.hpp>
#include <openvino/op/mish.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/tanh.hpp>

namespace lathe::openvino {

namespace {

using NodePtr = std::shared_ptr<ov::Node>;

/// x, where the node is Mish(x), or x · Tanh(Softplus(x)), which OpenVINO makes Mish of. Else nothing.
ov::Output<ov::Node> input_of_mish(const ov::Node& node) {
    if (ov::is_type<ov::op::v4::Mish>(&node)) return node.input_value(0);
    if (!ov::is_type<ov::op::v1::Multiply>(&node)) return {};
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        const ov::Node* tanh = node.get_input_node_ptr(at);
        if (!ov::is_type<ov::op::v0::Tanh>(tanh)) continue;
        const ov::Node* softplus = tanh->get_input_node_ptr(0);
        if (std::string_view(softplus->get_type_name()) == "SoftPlus" &&
            softplus->input_value(0) == node.input_value(1 - at))
            return node.input_value(1 - at);
    }
    return {};
}

//  x ──▶ Mish   ==>   n = e · (e + 2), e = Exp(min(x, 20));   x · n / (n + 2)
// tanh(ln(1 + e)) = n / (n + 2), in which nothing cancels; from 20 on it is 1 in float32.
bool write_mish(const NodePtr& node) {
    const ov::Output<ov::Node> x = input_of_mish(*node);
    if (x.get_node() == nullptr) return false;
    const ov::PartialShape& shape = node->get_output_partial_shape(0);
    if (shape.rank().is_dynamic() || shape.size() != 2 || shape.is_dynamic()) return false;
    const auto number = [&](float value) {
        return ov::op::v0::Constant::create(x.get_element_type(), ov::Shape{}, {value});
    };
    const auto low = std::make_shared<ov::op::v1::Minimum>(x, number(20));
    const auto e = std::make_shared<ov::op::v0::Exp>(low);
    const auto more = std::make_shared<ov::op::v1::Add>(e, number(2));
    const auto n = std::make_shared<ov::op::v1::Multiply>(e, more);
    const auto below = std::make_shared<ov::op::v1::Add>(n, number(2));
    const auto share = std::make_shared<ov::op::v1::Divide>(n, below);
    const auto result = std::make_shared<ov::op::v1::Multiply>(x, share);
    result->set_friendly_name(node->get_friendly_name());
    node->output(0).replace(result->output(0));
    return true;
}

} // namespace

void write_mish_of_rows(ov::Model& model) {
    std::size_t layers = 0;
    for (const NodePtr& node : model.get_ops())
        layers += ov::is_type<ov::op::v0::MatMul>(node.get()) ? 1 : 0;
    if (layers > 1) change_nodes(model, write_mish); // one layer alone computes it itself
}

} // namespace lathe::openvino
