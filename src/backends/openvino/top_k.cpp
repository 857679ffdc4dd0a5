#include "backends/openvino/top_k.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/topk.hpp>
#include <openvino/op/transpose.hpp>

namespace lathe::openvino {

namespace {

constexpr std::int64_t few = 5; ///< for so few OpenVINO compares pair by pair, in any case

/// What is known of one: k and the length of a row; -1: open.
struct Sizes {
    std::int64_t k = -1;
    std::int64_t length = -1;
    std::vector<std::int64_t> given; ///< empty where the rank is open
    std::size_t axis = 0;
};

std::int64_t size_of(const ov::Dimension& dimension) { return dimension.is_static() ? dimension.get_length() : -1; }

Sizes sizes_of(const ov::op::v11::TopK& top) {
    Sizes sizes;
    const ov::PartialShape& found = top.get_output_partial_shape(0);
    const ov::PartialShape& given = top.get_input_partial_shape(0);
    if (found.rank().is_dynamic() || given.rank().is_dynamic()) return sizes;
    for (const ov::Dimension& dimension : given)
        sizes.given.push_back(size_of(dimension));
    sizes.axis = static_cast<std::size_t>(top.get_axis());
    sizes.k = size_of(found[static_cast<std::ptrdiff_t>(sizes.axis)]);
    sizes.length = sizes.given[sizes.axis];
    return sizes;
}

bool orders_ties_cheaply(const Sizes& sizes) {
    constexpr std::int64_t comparisons = 20000;
    if (sizes.k >= 0 && sizes.k <= few) return true;
    if (sizes.length < 0) return false;
    const std::int64_t most = std::max<std::int64_t>(1, sizes.k < 0 ? sizes.length : sizes.k);
    return sizes.length <= comparisons / most;
}

bool gains_from_turning(const Sizes& sizes) {
    constexpr std::int64_t many = 8, long_enough = 16;
    const std::size_t rank = sizes.given.size();
    return sizes.k >= 0 && sizes.k <= few && rank >= 2 && sizes.axis + 1 == rank && sizes.length >= long_enough &&
           sizes.given[rank - 2] >= many;
}

//  x ──▶ TopK(last axis) ──▶ y   ==>   x ──▶ Transpose ──▶ TopK(last axis but one) ──▶ Transpose ──▶ y
void turn(const std::shared_ptr<ov::op::v11::TopK>& top) {
    const std::size_t rank = top->get_input_partial_shape(0).size();
    std::vector<std::int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[rank - 2], order[rank - 1]);
    const auto turned = [&](const ov::Output<ov::Node>& value, const std::string& name) {
        const auto axes = ov::op::v0::Constant::create(ov::element::i64, {rank}, order);
        const auto transpose = std::make_shared<ov::op::v1::Transpose>(value, axes);
        transpose->set_friendly_name(name);
        return transpose;
    };
    const std::string name = top->get_friendly_name();
    const auto quick = std::make_shared<ov::op::v11::TopK>(
        turned(top->input_value(0), name + "/rows"), top->input_value(1), static_cast<std::int64_t>(rank) - 2,
        top->get_mode(), top->get_sort_type(), top->get_index_element_type(), top->get_stable());
    quick->set_friendly_name(name);
    top->output(0).replace(turned(quick->output(0), name + "/values")->output(0));
    top->output(1).replace(turned(quick->output(1), name + "/indices")->output(0));
}

} // namespace

void improve_top_k(ov::Model& model) {
    change_nodes(model, [](const std::shared_ptr<ov::Node>& node) {
        const auto top = std::dynamic_pointer_cast<ov::op::v11::TopK>(node);
        if (!top) return false;
        const Sizes sizes = sizes_of(*top);
        if (!top->get_stable() && orders_ties_cheaply(sizes)) {
            if (top->get_sort_type() == ov::op::TopKSortType::NONE)
                top->set_sort_type(ov::op::TopKSortType::SORT_VALUES);
            top->set_stable(true);
        }
        if (!gains_from_turning(sizes)) return false;
        turn(top);
        return true;
    });
}

} // namespace lathe::openvino
