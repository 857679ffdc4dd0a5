#include "backends/openvino/normalised_scales.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>
#include <vector>

#include <openvino/op/ops.hpp>
#include <openvino/op/util/gather_base.hpp>
#include <openvino/op/util/interpolate_base.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>
#include <openvino/op/util/pad_base.hpp>

#include "backends/openvino/constant_rows.hpp"
#include "backends/openvino/shared_scales.hpp"

namespace lathe::openvino {

namespace {

bool quantises(const ov::Model& model) {
    return std::ranges::any_of(model.get_ops(), [](const std::shared_ptr<ov::Node>& node) {
        if (const auto body = std::dynamic_pointer_cast<ov::op::util::MultiSubGraphOp>(node))
            return std::ranges::any_of(body->get_functions(), [](const auto& inner) { return quantises(*inner); });
        return ov::is_type<ov::op::v0::FakeQuantize>(node);
    });
}

/// Whether a factor is one number, or one a channel: what OpenVINO may take for a scale.
bool may_be_scale(const ov::Node& product, std::size_t constant) {
    const ov::Shape& sizes = product.get_input_shape(constant);
    const ov::Rank rank = product.get_output_partial_shape(0).rank();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool channels = rank.is_static() && i + static_cast<std::size_t>(rank.get_length()) == sizes.size() + 1;
        if (sizes[i] != 1 && !channels) return false;
    }
    return true;
}

bool in_one_scale(const ov::Node* weights) {
    for (int steps = 0; steps < 8; ++steps) {
        if (ov::is_type<ov::op::v1::Multiply>(weights))
            return ov::shape_size(weights->get_input_partial_shape(1).get_max_shape()) == 1;
        if (!is_one_of<ov::op::v0::Convert, ov::op::v1::Reshape, ov::op::v1::Transpose>(*weights)) return false;
        weights = weights->get_input_node_ptr(0);
    }
    return false;
}

/// The inputs from which a node's result has its scale.
std::vector<const ov::Node*> scaled_inputs(const ov::Node& node) {
    using namespace ov::op;
    if (is_one_of<v1::Add, v1::Subtract, v1::Multiply>(node)) {
        const bool constant = reads_constant(node, 0) || reads_constant(node, 1);
        if (constant && !adds_nothing(node)) return {};
        return {node.get_input_node_ptr(0), node.get_input_node_ptr(1)};
    }
    // As a Clip is read.
    if (is_one_of<v1::Maximum, v1::Minimum>(node) && (reads_constant(node, 0) || reads_constant(node, 1)))
        return {node.get_input_node_ptr(reads_constant(node, 0) ? 1 : 0)};
    if (ov::is_type<v0::Concat>(&node)) {
        std::vector<const ov::Node*> all;
        for (std::size_t i = 0; i < node.get_input_size(); ++i)
            all.push_back(node.get_input_node_ptr(i));
        return all;
    }
    if (is_one_of<v0::Relu, v0::PRelu, v0::Clamp, v1::MaxPool, v8::MaxPool, v14::MaxPool, v1::AvgPool, v14::AvgPool,
                  v1::Reshape, v1::Transpose, v0::Squeeze, v15::Squeeze, v0::Unsqueeze, v1::Split, v1::VariadicSplit,
                  v1::StridedSlice, v8::Slice, v0::Convert, v16::Identity, v1::ReduceMean, v1::ReduceSum, v1::ReduceMax,
                  v1::ReduceMin, v0::DepthToSpace, v0::ShuffleChannels, v1::BatchToSpace, v1::SpaceToBatch,
                  v3::Broadcast, v0::Tile>(node) ||
        is_one_of<util::PadBase, util::GatherBase, util::InterpolateBase>(node))
        return {node.get_input_node_ptr(0)};
    return {};
}

/// Whether a value has a scale, its own or that of values before it, that OpenVINO may move.
bool has_scale(const ov::Node* value) {
    using namespace ov::op;
    constexpr std::size_t most_nodes = 256;
    std::set<const ov::Node*> seen{value};
    std::vector<const ov::Node*> open{value};
    while (!open.empty() && seen.size() < most_nodes) {
        const ov::Node& node = *open.back();
        open.pop_back();
        if (is_one_of<v1::Multiply, v1::Divide>(node)) {
            if (reads_constant(node, 1) && may_be_scale(node, 1)) return true;
            if (ov::is_type<v1::Multiply>(&node) && reads_constant(node, 0) && may_be_scale(node, 0)) return true;
        }
        const bool convolves = is_one_of<v1::Convolution, v1::GroupConvolution, v1::ConvolutionBackpropData,
                                         v1::GroupConvolutionBackpropData>(node);
        if (convolves && are_bytes(*node.get_input_node_ptr(1))) return true;
        if (ov::is_type<v0::MatMul>(&node) && in_one_scale(node.get_input_node_ptr(1))) return true;
        for (const ov::Node* before : scaled_inputs(node))
            if (seen.insert(before).second) open.push_back(before);
    }
    return !open.empty();
}

bool is_mean_of(const ov::Node& mean, const ov::Output<ov::Node>& value) {
    return ov::is_type<ov::op::v1::ReduceMean>(&mean) && mean.input_value(0) == value;
}

/// The input to keep apart: what is normalised, or less its mean.
ov::Output<ov::Node> normalised_by(const ov::Node& node) {
    if (is_one_of<ov::op::v0::MVN, ov::op::v6::MVN, ov::op::v12::GroupNormalization>(node)) return node.input_value(0);
    if (ov::is_type<ov::op::v1::Subtract>(&node) && is_mean_of(*node.get_input_node_ptr(1), node.input_value(0)))
        return node.input_value(0);
    return {};
}

void keep_apart(ov::Model& model) {
    std::map<ov::Output<ov::Node>, std::shared_ptr<ov::Node>> apart;
    change_nodes(model, [&](const std::shared_ptr<ov::Node>& node) {
        const ov::Output<ov::Node> value = normalised_by(*node);
        if (value.get_node() == nullptr || !value.get_element_type().is_real() || !has_scale(value.get_node()))
            return false;
        std::shared_ptr<ov::Node>& same = apart[value];
        if (same == nullptr) same = kept_apart(value);
        if (ov::is_type<ov::op::v1::Subtract>(node)) node->get_input_node_ptr(1)->input(0).replace_source_output(same);
        node->input(0).replace_source_output(same);
        return true;
    });
}

/// Whether a value is multiplied by a constant that OpenVINO may take for scales, and that has a zero, or may have one
/// where it is computed.
bool masks(const ov::Node& node, const std::unordered_set<const ov::Node*>& constants) {
    if (!ov::is_type<ov::op::v1::Multiply>(&node) || !node.get_output_element_type(0).is_real()) return false;
    for (const std::size_t at : {0, 1}) {
        if (!constants.contains(node.get_input_node_ptr(at)) || constants.contains(&node)) continue;
        if (node.get_input_partial_shape(at).is_dynamic() || !may_be_scale(node, at)) continue;
        const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node.get_input_node_shared_ptr(at));
        if (constant == nullptr) return true;
        const auto numbers = constant->cast_vector<float>();
        if (std::ranges::find(numbers, 0.0F) != numbers.end()) return true;
    }
    return false;
}

void keep_masks_apart(ov::Model& model) {
    const auto constants = constant_nodes(model);
    change_nodes(model, [&](const std::shared_ptr<ov::Node>& node) {
        if (!masks(*node, constants)) return false;
        const auto readers = node->output(0).get_target_inputs();
        const bool reaches_out = std::ranges::all_of(
            readers, [](const auto& reader) { return ov::is_type<ov::op::v0::Result>(reader.get_node()); });
        if (reaches_out) return false;
        const auto same = kept_apart(node->output(0));
        for (ov::Input<ov::Node> reader : readers)
            if (!ov::is_type<ov::op::v0::Result>(reader.get_node())) reader.replace_source_output(same);
        return true;
    });
}

} // namespace

void keep_scales_of_normalised(ov::Model& model) {
    if (!quantises(model)) return;
    keep_apart(model);
    keep_masks_apart(model);
}

} // namespace lathe::openvino
