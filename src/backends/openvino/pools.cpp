#include "backends/openvino/pools.hpp"

#include <cstddef>
#include <memory>

#include <openvino/op/avg_pool.hpp>
#include <openvino/op/max_pool.hpp>

namespace lathe::openvino {

namespace {

constexpr auto up = ov::op::RoundingType::CEIL, up_inside = ov::op::RoundingType::CEIL_TORCH;

/// Whether the last window may begin behind the input.
bool may_begin_behind(const ov::Strides& strides, const ov::Strides& dilations, const ov::Shape& kernel,
                      const ov::Shape& end) {
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::size_t dilation = dilations.empty() ? 1 : dilations[i];
        if (strides[i] + end[i] > (kernel[i] - 1) * dilation + 1) return true;
    }
    return false;
}

/// The same pool, rounded as ONNX does; null for what is none, or has no such windows.
std::shared_ptr<ov::Node> rounded_as_onnx(const std::shared_ptr<ov::Node>& node) {
    if (const auto largest = ov::as_type_ptr<ov::op::v8::MaxPool>(node)) {
        if (largest->get_rounding_type() != up || !may_begin_behind(largest->get_strides(), largest->get_dilations(),
                                                                    largest->get_kernel(), largest->get_pads_end()))
            return nullptr;
        return std::make_shared<ov::op::v14::MaxPool>(
            largest->input_value(0), largest->get_strides(), largest->get_dilations(), largest->get_pads_begin(),
            largest->get_pads_end(), largest->get_kernel(), up_inside, largest->get_auto_pad(),
            largest->get_index_element_type(), largest->get_axis());
    }
    if (const auto mean = ov::as_type_ptr<ov::op::v1::AvgPool>(node)) {
        if (mean->get_rounding_type() != up ||
            !may_begin_behind(mean->get_strides(), {}, mean->get_kernel(), mean->get_pads_end()))
            return nullptr;
        return std::make_shared<ov::op::v14::AvgPool>(mean->input_value(0), mean->get_strides(), mean->get_pads_begin(),
                                                      mean->get_pads_end(), mean->get_kernel(), mean->get_exclude_pad(),
                                                      up_inside, mean->get_auto_pad());
    }
    return nullptr;
}

} // namespace

void leave_out_windows_behind(ov::Model& model) {
    change_nodes(model, [](const std::shared_ptr<ov::Node>& node) {
        const auto pool = rounded_as_onnx(node);
        if (pool == nullptr) return false;
        pool->set_friendly_name(node->get_friendly_name());
        for (std::size_t i = 0; i < node->get_output_size(); ++i)
            node->output(i).replace(pool->output(i));
        return true;
    });
}

} // namespace lathe::openvino
