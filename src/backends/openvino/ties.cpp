#include "backends/openvino/ties.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <openvino/op/constant.hpp>
#include <openvino/op/topk.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

namespace lathe::openvino {

namespace {

bool is_cheap(const ov::op::v11::TopK& top) {
    constexpr std::int64_t few = 5; // for so few it compares pair by pair in any case
    constexpr std::int64_t comparisons = 20000;
    const ov::PartialShape& found = top.get_output_partial_shape(0);
    const ov::PartialShape& given = top.get_input_partial_shape(0);
    if (found.rank().is_dynamic() || given.rank().is_dynamic()) return false;
    const auto axis = static_cast<std::ptrdiff_t>(top.get_axis());
    const ov::Dimension& k = found[axis];
    const ov::Dimension& length = given[axis];
    if (k.is_static() && k.get_length() <= few) return true;
    if (length.is_dynamic()) return false;
    // At most as many as there are.
    const std::int64_t most = std::max<std::int64_t>(1, k.is_static() ? k.get_length() : length.get_length());
    return length.get_length() <= comparisons / most;
}

} // namespace

void order_ties(ov::Model& model) {
    for (const auto& node : model.get_ops()) {
        if (const auto body = std::dynamic_pointer_cast<ov::op::util::MultiSubGraphOp>(node)) {
            for (const auto& inner : body->get_functions())
                order_ties(*inner);
        }
        const auto top = std::dynamic_pointer_cast<ov::op::v11::TopK>(node);
        if (!top || top->get_stable() || !is_cheap(*top)) continue;
        if (top->get_sort_type() == ov::op::TopKSortType::NONE) top->set_sort_type(ov::op::TopKSortType::SORT_VALUES);
        top->set_stable(true);
    }
}

} // namespace lathe::openvino
