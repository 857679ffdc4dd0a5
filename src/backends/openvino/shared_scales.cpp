#include "backends/openvino/shared_scales.hpp"

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/divide.hpp>
#include <openvino/op/fake_quantize.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/pad.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/slice.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/strided_slice.hpp>
#include <openvino/op/subtract.hpp>
#include <openvino/op/transpose.hpp>
#include <openvino/op/unsqueeze.hpp>
#include <openvino/op/util/pad_base.hpp>

namespace lathe::openvino {

bool are_bytes(const ov::Node& weights) {
    using namespace ov::op;
    const ov::Node* node = &weights;
    for (int steps = 0; steps < 8; ++steps) {
        if (ov::is_type<v0::FakeQuantize>(node)) return true;
        if (ov::is_type<v0::Constant>(node)) {
            const ov::element::Type type = node->get_output_element_type(0);
            return type == ov::element::i8 || type == ov::element::u8;
        }
        if (!is_one_of<v0::Convert, v1::Subtract, v1::Multiply, v1::Reshape, v1::Transpose>(*node)) return false;
        node = node->get_input_node_ptr(0);
    }
    return false;
}

bool adds_nothing(const ov::Node& node) {
    if (!is_one_of<ov::op::v1::Add, ov::op::v1::Subtract>(node)) return false;
    for (const std::size_t i : {0, 1}) {
        const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node.get_input_node_shared_ptr(i));
        if (constant == nullptr || !constant->get_all_data_elements_bitwise_identical()) continue;
        const auto values = constant->cast_vector<float>(1);
        return !values.empty() && values.front() == 0.0F;
    }
    return false;
}

std::shared_ptr<ov::Node> kept_apart(const ov::Output<ov::Node>& value) {
    const ov::Node& node = *value.get_node();
    const ov::PartialShape sizes = value.get_partial_shape();
    const bool has_channels = is_one_of<ov::op::v1::Convolution, ov::op::v1::GroupConvolution>(node) &&
                              sizes.rank().is_static() && sizes[1].is_static() && sizes[1].get_length() > 1;
    if (!has_channels) return same_value(value);
    // What is left out are zeros that are all alike.
    std::vector<float> nothing(static_cast<std::size_t>(sizes[1].get_length()), 0.0F);
    nothing.front() = -0.0F;
    ov::Shape shape(sizes.size(), 1);
    shape[1] = nothing.size();
    const auto bias = std::make_shared<ov::op::v0::Constant>(value.get_element_type(), shape, nothing);
    return std::make_shared<ov::op::v1::Add>(value, bias);
}

namespace {

/// What may be left out, or gone into the scales, so that its readers are those of what it reads.
bool may_vanish(const ov::Node& node) {
    using namespace ov::op;
    if (is_one_of<v1::Multiply, v1::Divide>(node)) return reads_constant(node, 0) || reads_constant(node, 1);
    if (adds_nothing(node)) return true;
    if (ov::is_type<v0::Concat>(&node)) return node.get_input_size() == 1;
    return is_one_of<v0::Convert, v1::Reshape, v0::Squeeze, v0::Unsqueeze, v1::Transpose, v8::Slice, v1::StridedSlice,
                     util::PadBase>(node);
}

/// Puts one value in the place of another, which it is computed from.
void put_behind(const ov::Output<ov::Node>& value, const std::set<ov::Input<ov::Node>>& readers,
                ov::Output<ov::Node> same) {
    for (ov::Input<ov::Node> reader : readers)
        reader.replace_source_output(same);
    ov::Output<ov::Node> before = value;
    same.set_names(before.get_names());
    before.set_names({});
}

bool given_a_bias(const std::shared_ptr<ov::Node>& node) {
    if (!is_one_of<ov::op::v1::Convolution, ov::op::v1::GroupConvolution>(*node) ||
        !are_bytes(*node->get_input_node_ptr(1)))
        return false;
    const ov::PartialShape sizes = node->get_output_partial_shape(0);
    const ov::element::Type type = node->get_output_element_type(0);
    if (!type.is_real() || sizes.rank().is_dynamic() || sizes[1].is_dynamic()) return false;
    const auto readers = node->output(0).get_target_inputs();
    auto last = readers;
    for (int steps = 0; last.size() == 1 && steps < 8; ++steps) {
        const ov::Node& reader = *last.begin()->get_node();
        if (!may_vanish(reader)) return false;
        last = reader.output(0).get_target_inputs();
    }
    if (last.size() < 2) return false;
    put_behind(node->output(0), readers, kept_apart(node->output(0))->output(0));
    return true;
}

} // namespace

void keep_shared_scales(ov::Model& model) { change_nodes(model, given_a_bias); }

} // namespace lathe::openvino
