#include "backends/openvino/masks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/reshape.hpp>

namespace lathe::openvino {

namespace {

/// [1, 1, 1, S], or fewer axes of one.
bool is_one_row(const ov::PartialShape& shape) {
    if (shape.rank().is_dynamic() || shape.size() == 0) return false;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i)
        if (shape[i] != ov::Dimension(1)) return false;
    return shape[shape.size() - 1] != ov::Dimension(1);
}

/// Whether a value is an input of the model or a constant, at most moved or converted since. What is computed is right.
bool is_given(const ov::Output<ov::Node>& value, int steps = 8) {
    static constexpr std::array<std::string_view, 8> moving{"Convert", "Reshape",   "Unsqueeze", "Squeeze",
                                                            "Slice",   "Broadcast", "Transpose", "StridedSlice"};
    const std::string_view type = value.get_node()->get_type_name();
    if (type == "Parameter" || type == "Constant") return true;
    return steps > 0 && std::ranges::find(moving, type) != moving.end() &&
           is_given(value.get_node()->input_value(0), steps - 1);
}

bool is_read_by_softmax(const ov::Node& node) {
    for (const auto& reader : node.output(0).get_target_inputs())
        if (std::string_view(reader.get_node()->get_type_name()) == "Softmax") return true;
    return false;
}

//  scores [N, H, T, S], mask [1, 1, 1, S] ──▶ Add   ==>   mask ──▶ Maximum(mask, mask), H times ──▶ Concat ──▶ Add
bool give_to_heads(const std::shared_ptr<ov::Node>& node) {
    const auto sum = ov::as_type_ptr<ov::op::v1::Add>(node);
    if (sum == nullptr || !is_read_by_softmax(*sum)) return false;
    const ov::PartialShape scores = sum->get_output_partial_shape(0);
    if (scores.rank().is_dynamic() || (scores.size() != 3 && scores.size() != 4)) return false;
    // Of one head, a row for each of the tokens instead.
    std::size_t axis = scores.size() - 3;
    if (scores[axis] == ov::Dimension(1)) ++axis;
    if (scores[axis].is_dynamic() || scores[axis].get_length() < 2) return false;
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        const ov::Output<ov::Node> mask = sum->input_value(at);
        if (!is_one_row(mask.get_partial_shape()) || is_one_row(sum->get_input_partial_shape(1 - at)) ||
            !is_given(mask))
            continue;
        std::vector<std::int64_t> row(scores.size(), 1);
        row.back() = -1;
        const auto sizes = ov::op::v0::Constant::create(ov::element::i64, {row.size()}, row);
        // Computed, it is no input; OpenVINO folds what only repeats one.
        const auto computed = same_value(mask);
        const auto whole = std::make_shared<ov::op::v1::Reshape>(computed, sizes, false);
        const ov::OutputVector rows(static_cast<std::size_t>(scores[axis].get_length()), whole->output(0));
        const auto joined = std::make_shared<ov::op::v0::Concat>(rows, static_cast<std::int64_t>(axis));
        sum->input(at).replace_source_output(joined->output(0));
        return true;
    }
    return false;
}

} // namespace

void give_masks_to_heads(ov::Model& model) { change_nodes(model, give_to_heads); }

} // namespace lathe::openvino
