#include "backends/openvino/padding.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/maximum.hpp>
#include <openvino/op/util/pad_base.hpp>

namespace lathe::openvino {

namespace {

/// Whether windows along an axis begin or end in the padding alone, once a Pad's is the convolution's, too.
template <class Convolution>
bool lies_in_padding(const Convolution& convolution, const ov::op::util::PadBase& pad, std::size_t window_axis) {
    const ov::PartialShape weights = convolution.get_input_partial_shape(1);
    const ov::CoordinateDiff begin = pad.get_pads_begin(), end = pad.get_pads_end();
    const auto& dilations = convolution.get_dilations();
    for (std::size_t i = 0; i < dilations.size(); ++i) {
        if (weights.rank().is_dynamic() || weights[window_axis + i].is_dynamic()) return true;
        const std::int64_t window =
            static_cast<std::int64_t>(dilations[i]) * (weights[window_axis + i].get_length() - 1) + 1;
        // Of a Pad that is given no constants nothing is known, and nothing is made by OpenVINO.
        if (i + 2 >= begin.size() || i + 2 >= end.size()) return false;
        if (begin[i + 2] + convolution.get_pads_begin()[i] >= window ||
            end[i + 2] + convolution.get_pads_end()[i] >= window)
            return true;
    }
    return false;
}

bool padding_set_apart(const std::shared_ptr<ov::Node>& node) {
    const auto plain = ov::as_type_ptr<ov::op::v1::Convolution>(node);
    const auto grouped = ov::as_type_ptr<ov::op::v1::GroupConvolution>(node);
    if (plain == nullptr && grouped == nullptr) return false;
    const ov::Output<ov::Node> padded = node->input_value(0);
    const auto pad = ov::as_type_ptr<ov::op::util::PadBase>(padded.get_node_shared_ptr());
    if (pad == nullptr || pad->get_pad_mode() != ov::op::PadMode::CONSTANT) return false;
    if (!(plain ? lies_in_padding(*plain, *pad, 2) : lies_in_padding(*grouped, *pad, 3))) return false;
    node->input(0).replace_source_output(std::make_shared<ov::op::v1::Maximum>(padded, padded));
    return true;
}

} // namespace

void keep_padding_apart(ov::Model& model) { change_nodes(model, padding_set_apart); }

} // namespace lathe::openvino
