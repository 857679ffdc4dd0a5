#include "backends/openvino/row_factors.hpp"

#include <cstddef>
#include <memory>

#include <openvino/op/batch_norm.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/prelu.hpp>
#include <openvino/op/util/binary_elementwise_arithmetic.hpp>

namespace lathe::openvino {

namespace {

/// Whether a constant has numbers along axis 1 of `rank` alone.
bool is_along_axis_1(const ov::Shape& shape, std::size_t rank, bool from_axis_1) {
    if (from_axis_1 && shape.size() == 1) return shape[0] > 1; // PRelu's slopes
    if (shape.size() + 1 < rank || shape.size() > rank) return false;
    const std::size_t before = rank - shape.size(); // axes that the constant has not
    for (std::size_t i = 0; i < shape.size(); ++i)
        if ((i + before == 1) != (shape[i] > 1)) return false;
    return true;
}

/// The input that numbers along axis 1 meet; nothing where there are none.
ov::Output<ov::Node> met_along_axis_1(const ov::Node& node) {
    const ov::PartialShape& shape = node.get_output_partial_shape(0);
    if (shape.rank().is_dynamic() || shape.size() < 4 || shape.is_static()) return {};
    if (ov::is_type<ov::op::v5::BatchNormInference>(&node) || ov::is_type<ov::op::v0::BatchNormInference>(&node))
        return node.input_value(ov::is_type<ov::op::v0::BatchNormInference>(&node) ? 2 : 0);
    const bool slopes = ov::is_type<ov::op::v0::PRelu>(&node);
    if (!slopes && !ov::is_type<ov::op::util::BinaryElementwiseArithmetic>(&node)) return {};
    for (const std::size_t at : {std::size_t{1}, std::size_t{0}})
        if (reads_constant(node, at) && is_along_axis_1(node.get_input_shape(at), shape.size(), slopes))
            return node.input_value(1 - at);
    return {};
}

/// Whether a value comes number by number from a product with weights, with more than constants in between.
bool is_activated_product(const ov::Node* node) {
    constexpr int most_steps = 16;
    bool activated = false;
    for (int steps = 0; steps < most_steps; ++steps) {
        const std::size_t count = node->get_input_size();
        if (ov::is_type<ov::op::v0::MatMul>(node)) {
            if (reads_constant(*node, 0)) { // OpenVINO moves factors of axis 1 before a product from the left
                node = node->get_input_node_ptr(1);
                continue;
            }
            const ov::PartialShape& weights = node->get_input_partial_shape(1); // or behind their dequantisation
            return activated && weights.is_static() && weights.size() == 2;
        }
        const bool pair = count == 2 && ov::is_type<ov::op::util::BinaryElementwiseArithmetic>(node);
        const bool by_constant = pair && (reads_constant(*node, 0) || reads_constant(*node, 1));
        if (count == 0 || (count > 1 && !pair && !reads_constant(*node, 1))) return false;
        const std::size_t along = by_constant && reads_constant(*node, 0) ? 1 : 0; // x * Sigmoid(x): both lead to x
        if (node->get_output_partial_shape(0) != node->get_input_partial_shape(along)) return false;
        activated = activated || !by_constant;
        node = node->get_input_node_ptr(along);
    }
    return false;
}

bool factor_set_apart(const std::shared_ptr<ov::Node>& node) {
    const ov::Output<ov::Node> value = met_along_axis_1(*node);
    if (value.get_node() == nullptr || !is_activated_product(value.get_node())) return false;
    const auto same = same_value(value);
    for (std::size_t i = 0; i < node->get_input_size(); ++i)
        if (node->input_value(i) == value) node->input(i).replace_source_output(same);
    return true;
}

} // namespace

void keep_row_factors_apart(ov::Model& model) { change_nodes(model, factor_set_apart); }

} // namespace lathe::openvino
