#include "backends/openvino/slopes.hpp"

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/batch_norm.hpp>
#include <openvino/op/clamp.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/elu.hpp>
#include <openvino/op/fake_quantize.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/identity.hpp>
#include <openvino/op/prelu.hpp>
#include <openvino/op/util/binary_elementwise_arithmetic.hpp>
#include <openvino/op/util/unary_elementwise_arithmetic.hpp>

#include "backends/openvino/shared_scales.hpp"

namespace lathe::openvino {

namespace {

/// Of one channel each, to several.
bool convolves_channels_apart(const ov::Node& node) {
    if (!ov::is_type<ov::op::v1::GroupConvolution>(&node) || !are_bytes(*node.get_input_node_ptr(1))) return false;
    const ov::PartialShape weights = node.get_input_partial_shape(1); // groups, to, from, window
    return weights.rank().is_static() && weights[1] != 1 && weights[2] == 1;
}

/// What OpenVINO takes into the kernel of the convolution in front.
bool may_be_taken_in(const ov::Node& node) {
    using namespace ov::op;
    return is_one_of<util::BinaryElementwiseArithmetic, util::UnaryElementwiseArithmetic, v0::PRelu, v0::FakeQuantize,
                     v0::Convert, v0::Clamp, v0::Elu, v16::Identity, v5::BatchNormInference>(node);
}

bool comes_of_channels(const ov::Node* value) {
    constexpr std::size_t most_nodes = 32;
    std::set<const ov::Node*> seen{value};
    std::vector<const ov::Node*> open{value};
    while (!open.empty()) {
        const ov::Node& node = *open.back();
        open.pop_back();
        if (convolves_channels_apart(node)) return true;
        for (std::size_t i = 0; may_be_taken_in(node) && i < node.get_input_size(); ++i) {
            const ov::Node* before = node.get_input_node_ptr(i);
            if (seen.size() < most_nodes && seen.insert(before).second) open.push_back(before);
        }
    }
    return false;
}

bool slopes_set_apart(const std::shared_ptr<ov::Node>& node) {
    if (!ov::is_type<ov::op::v0::PRelu>(node)) return false;
    const ov::PartialShape slopes = node->get_input_partial_shape(1);
    if (slopes.is_static() && ov::shape_size(slopes.to_shape()) == 1) return false;
    if (!comes_of_channels(node->get_input_node_ptr(0))) return false;
    set_input_apart(*node, 0);
    return true;
}

} // namespace

void keep_slopes_apart(ov::Model& model) { change_nodes(model, slopes_set_apart); }

} // namespace lathe::openvino
