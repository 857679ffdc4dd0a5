#include "backends/openvino/choices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/gather.hpp>
#include <openvino/op/if.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/shape_of.hpp>

namespace lathe::openvino {

namespace {

std::shared_ptr<ov::Node> number_of(std::int64_t value, const ov::Shape& shape) {
    return ov::op::v0::Constant::create(ov::element::i64, shape, {value});
}

//  If ──▶ y   ==>   If ──▶ Reshape(sizes + 0 · condition) ──▶ y
bool given_sizes_again(const std::shared_ptr<ov::Node>& node) {
    if (!ov::is_type<ov::op::v8::If>(node)) return false;
    bool changed = false;
    for (const ov::Output<ov::Node>& output : node->outputs()) {
        const ov::PartialShape sizes = output.get_partial_shape();
        if (sizes.rank().is_dynamic() || sizes.is_static()) continue;
        std::vector<ov::Input<ov::Node>> readers;
        for (const ov::Input<ov::Node>& reader : output.get_target_inputs())
            if (!ov::is_type<ov::op::v0::Result>(reader.get_node())) readers.push_back(reader);
        if (readers.empty()) continue;
        const auto number = std::make_shared<ov::op::v0::Convert>(node->input_value(0), ov::element::i64);
        const auto row = std::make_shared<ov::op::v1::Reshape>(number, number_of(1, {1}), false);
        const auto nothing = std::make_shared<ov::op::v1::Multiply>(row, number_of(0, {1}));
        const auto shape = std::make_shared<ov::op::v3::ShapeOf>(output, ov::element::i64);
        ov::OutputVector each; // what is known stays so
        for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
            if (sizes[axis].is_static()) {
                each.push_back(number_of(sizes[axis].get_length(), {1}));
                continue;
            }
            const auto at = number_of(static_cast<std::int64_t>(axis), {1});
            const auto size = std::make_shared<ov::op::v8::Gather>(shape, at, number_of(0, {}));
            each.push_back(std::make_shared<ov::op::v1::Add>(size, nothing));
        }
        const auto target = std::make_shared<ov::op::v0::Concat>(each, 0);
        const auto same = std::make_shared<ov::op::v1::Reshape>(output, target, false);
        for (ov::Input<ov::Node>& reader : readers)
            reader.replace_source_output(same);
        changed = true;
    }
    return changed;
}

} // namespace

void keep_chosen_results(ov::Model& model) { change_nodes(model, given_sizes_again); }

} // namespace lathe::openvino
