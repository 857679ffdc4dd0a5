#include "backends/openvino/turns.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/transpose.hpp>
#include <openvino/op/unsqueeze.hpp>

namespace lathe::openvino {

namespace {

using Order = std::vector<std::int64_t>;

/// Heads and tokens change places: the last axis but one and the one in front of it.
Order exchange_of_heads(std::size_t rank) {
    Order order(rank);
    std::iota(order.begin(), order.end(), 0);
    if (rank >= 3) std::swap(order[rank - 3], order[rank - 2]);
    return order;
}

//  x ──▶ Transpose(0, 2, 1, 3)   ==>   x ──▶ Unsqueeze(0) ──▶ Transpose(0, 1, 3, 2, 4) ──▶ Squeeze(0)
bool set_apart(const std::shared_ptr<ov::Node>& node) {
    const auto transpose = ov::as_type_ptr<ov::op::v1::Transpose>(node);
    if (transpose == nullptr) return false;
    const ov::PartialShape& shape = transpose->get_output_partial_shape(0);
    const auto order = ov::as_type_ptr<ov::op::v0::Constant>(transpose->get_input_node_shared_ptr(1));
    if (order == nullptr || shape.is_dynamic() || (shape.size() != 3 && shape.size() != 4)) return false;
    if (order->cast_vector<std::int64_t>() != exchange_of_heads(shape.size())) return false;
    const ov::Dimension heads = shape[shape.size() - 3];
    if (heads != shape[shape.size() - 2] || heads.get_length() < 2) return false;
    const auto constant = [](const Order& values) {
        return ov::op::v0::Constant::create(ov::element::i64, {values.size()}, values);
    };
    const auto wider = std::make_shared<ov::op::v0::Unsqueeze>(transpose->input_value(0), constant({0}));
    const auto turned = std::make_shared<ov::op::v1::Transpose>(wider, constant(exchange_of_heads(shape.size() + 1)));
    const auto flat = std::make_shared<ov::op::v0::Squeeze>(turned, constant({0}));
    flat->set_friendly_name(transpose->get_friendly_name());
    transpose->output(0).replace(flat->output(0));
    return true;
}

} // namespace

void keep_turns_apart(ov::Model& model) { change_nodes(model, set_apart); }

} // namespace lathe::openvino
