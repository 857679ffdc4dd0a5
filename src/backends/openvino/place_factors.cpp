#include "backends/openvino/place_factors.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

#include <openvino/op/add.hpp>
#include <openvino/op/batch_norm.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/divide.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/identity.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/negative.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/subtract.hpp>
#include <openvino/op/unsqueeze.hpp>
#include <openvino/op/util/convolution_base.hpp>

namespace lathe::openvino {

namespace {

/// Whether a constant has as many numbers along one of the last `axes` axes as the window has places there.
bool are_places(const ov::Shape& constant, const ov::Shape& weights, std::size_t axes) {
    for (std::size_t i = 1; i <= std::min(axes, constant.size()); ++i) {
        const std::size_t count = constant[constant.size() - i];
        if (count > 1 && count == weights[weights.size() - i]) return true;
    }
    return false;
}

/// The input that a node passes on, by factors and shifts or as it is: OpenVINO gathers these or leaves them out.
std::optional<std::size_t> passed_on(const ov::Node* node) {
    using namespace ov::op;
    if (ov::is_type<v1::Multiply>(node) || ov::is_type<v1::Divide>(node) || ov::is_type<v1::Add>(node) ||
        ov::is_type<v1::Subtract>(node)) {
        if (reads_constant(*node, 1)) return 0;
        if (reads_constant(*node, 0) && !ov::is_type<v1::Divide>(node)) return 1;
        return std::nullopt;
    }
    if (ov::is_type<v0::BatchNormInference>(node)) return 2;
    if (ov::is_type<v5::BatchNormInference>(node) || ov::is_type<v0::Negative>(node) ||
        ov::is_type<v0::Convert>(node) || ov::is_type<v16::Identity>(node) || ov::is_type<v1::Reshape>(node) ||
        ov::is_type<v0::Squeeze>(node) || ov::is_type<v15::Squeeze>(node) || ov::is_type<v0::Unsqueeze>(node))
        return 0;
    return std::nullopt;
}

bool convolution_set_apart(const std::shared_ptr<ov::Node>& node) {
    const auto* base = dynamic_cast<const ov::op::util::ConvolutionBase*>(node.get());
    const bool forward = ov::is_type<ov::op::v1::Convolution>(node) || ov::is_type<ov::op::v1::GroupConvolution>(node);
    if (base == nullptr || !forward || node->get_input_partial_shape(1).is_dynamic()) return false;
    const auto pads = [](const ov::CoordinateDiff& sizes) {
        return std::ranges::any_of(sizes, [](std::ptrdiff_t size) { return size != 0; });
    };
    const bool named =
        base->get_auto_pad() == ov::op::PadType::SAME_LOWER || base->get_auto_pad() == ov::op::PadType::SAME_UPPER;
    if (!named && !pads(base->get_pads_begin()) && !pads(base->get_pads_end())) return false;
    const ov::Shape weights = node->get_input_shape(1);
    const std::size_t axes = base->get_strides().size();
    constexpr int most_steps = 16;
    const ov::Node* before = node->get_input_node_ptr(0);
    for (int steps = 0; steps < most_steps; ++steps) {
        const auto along = passed_on(before);
        if (!along) return false;
        const bool scales = ov::is_type<ov::op::v1::Multiply>(before) || ov::is_type<ov::op::v1::Divide>(before);
        if (scales && are_places(before->get_input_shape(1 - *along), weights, axes)) {
            set_input_apart(*node, 0);
            return true;
        }
        before = before->get_input_node_ptr(*along);
    }
    return false;
}

} // namespace

void keep_place_factors_apart(ov::Model& model) { change_nodes(model, convolution_set_apart); }

} // namespace lathe::openvino
