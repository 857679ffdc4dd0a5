#include "backends/openvino/sequences.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/transpose.hpp>
#include <openvino/op/unsqueeze.hpp>

namespace lathe::openvino {

namespace {

using Order = std::vector<std::int64_t>;

std::shared_ptr<ov::op::v1::Transpose> only_transpose(const ov::Output<ov::Node>& value, const Order& order) {
    const auto readers = value.get_target_inputs();
    if (readers.size() != 1) return nullptr;
    const auto transpose = ov::as_type_ptr<ov::op::v1::Transpose>(readers.begin()->get_node()->shared_from_this());
    if (transpose == nullptr) return nullptr;
    const auto found = ov::as_type_ptr<ov::op::v0::Constant>(transpose->get_input_node_shared_ptr(1));
    return found != nullptr && found->cast_vector<std::int64_t>() == order ? transpose : nullptr;
}

bool is_sequence(const ov::Node& node) {
    const std::string_view name = node.get_type_info().name;
    return name == "LSTMSequence" || name == "GRUSequence" || name == "RNNSequence";
}

//  y [batch, 1, time, hidden] ──▶ Transpose(2, 1, 0, 3)
//    ==>   y ──▶ Squeeze(1) ──▶ Transpose(1, 0, 2) ──▶ Unsqueeze(1)
bool rewrite(ov::Node& sequence) {
    const ov::PartialShape& shape = sequence.get_output_partial_shape(0);
    if (shape.rank().is_dynamic() || shape.size() != 4 || shape[1] != ov::Dimension(1)) return false;
    const auto transpose = only_transpose(sequence.output(0), {2, 1, 0, 3});
    if (transpose == nullptr) return false;
    const auto constant = [](const Order& values) {
        return ov::op::v0::Constant::create(ov::element::i64, {values.size()}, values);
    };
    const auto flat = std::make_shared<ov::op::v0::Squeeze>(sequence.output(0), constant({1}));
    const auto turned = std::make_shared<ov::op::v1::Transpose>(flat, constant({1, 0, 2}));
    const auto whole = std::make_shared<ov::op::v0::Unsqueeze>(turned, constant({1}));
    whole->set_friendly_name(transpose->get_friendly_name());
    ov::replace_node(transpose, whole);
    return true;
}

} // namespace

void keep_sequence_axis(ov::Model& model) {
    change_nodes(model, [](const std::shared_ptr<ov::Node>& node) { return is_sequence(*node) && rewrite(*node); });
}

} // namespace lathe::openvino
