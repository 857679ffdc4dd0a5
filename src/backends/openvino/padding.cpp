#include "backends/openvino/padding.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

#include <openvino/op/constant.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/pad.hpp>
#include <openvino/op/util/pad_base.hpp>

namespace lathe::openvino {

namespace {

/// The padding of a Pad and of the convolution behind it, along the axes of its windows.
struct Padding {
    ov::CoordinateDiff begin, end;
};

/// Whether windows begin or end in the padding alone.
template <class Convolution>
bool lies_in_padding(const Convolution& convolution, const Padding& padding, std::size_t window_axis) {
    const ov::PartialShape weights = convolution.get_input_partial_shape(1);
    const auto& dilations = convolution.get_dilations();
    for (std::size_t i = 0; i < dilations.size(); ++i) {
        if (weights.rank().is_dynamic() || weights[window_axis + i].is_dynamic()) return true;
        const std::int64_t window =
            static_cast<std::int64_t>(dilations[i]) * (weights[window_axis + i].get_length() - 1) + 1;
        if (padding.begin[i] >= window || padding.end[i] >= window) return true;
    }
    return false;
}

std::shared_ptr<ov::op::v0::Constant> pads_of_all_axes(ov::CoordinateDiff pads) {
    pads.insert(pads.begin(), 2, 0);
    return ov::op::v0::Constant::create(ov::element::i64, {pads.size()}, pads);
}

template <class Convolution>
bool padding_set_apart(const std::shared_ptr<Convolution>& convolution, std::size_t window_axis) {
    if (convolution->get_auto_pad() != ov::op::PadType::EXPLICIT) return false;
    const Padding own{convolution->get_pads_begin(), convolution->get_pads_end()};
    ov::Output<ov::Node> padded = convolution->input_value(0);
    const auto pad = ov::as_type_ptr<ov::op::util::PadBase>(padded.get_node_shared_ptr());
    Padding all = own;
    if (pad != nullptr && pad->get_pad_mode() == ov::op::PadMode::CONSTANT) {
        const ov::CoordinateDiff begin = pad->get_pads_begin(), end = pad->get_pads_end();
        // Of a Pad that is given no constants nothing is known, and OpenVINO leaves it as it is.
        for (std::size_t i = 0; i < own.begin.size() && i + 2 < begin.size() && i + 2 < end.size(); ++i) {
            all.begin[i] += begin[i + 2];
            all.end[i] += end[i + 2];
        }
    }
    if (!lies_in_padding(*convolution, all, window_axis)) return false;
    if (lies_in_padding(*convolution, own, window_axis)) {
        const auto zero = ov::op::v0::Constant::create(padded.get_element_type(), {}, {0});
        padded = same_value(padded); // bytes of one element along an axis are padded by their zero point
        padded = std::make_shared<ov::op::v1::Pad>(padded, pads_of_all_axes(own.begin), pads_of_all_axes(own.end), zero,
                                                   ov::op::PadMode::CONSTANT);
        const ov::CoordinateDiff none(own.begin.size(), 0);
        convolution->set_pads_begin(none);
        convolution->set_pads_end(none);
    }
    convolution->input(0).replace_source_output(same_value(padded));
    return true;
}

bool is_set_apart(const std::shared_ptr<ov::Node>& node) {
    if (const auto plain = ov::as_type_ptr<ov::op::v1::Convolution>(node)) return padding_set_apart(plain, 2);
    const auto grouped = ov::as_type_ptr<ov::op::v1::GroupConvolution>(node);
    return grouped != nullptr && padding_set_apart(grouped, 3);
}

} // namespace

void keep_padding_apart(ov::Model& model) { change_nodes(model, is_set_apart); }

} // namespace lathe::openvino
