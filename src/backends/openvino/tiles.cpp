#include "backends/openvino/tiles.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/tile.hpp>
#include <openvino/op/unsqueeze.hpp>

namespace lathe::openvino {

namespace {

/// Ranks from here on have no layouts but the plain one.
constexpr std::size_t plain_rank = 6;

bool may_be_one(const ov::Dimension& size) { return size.compatible(ov::Dimension(1)); }

/// Whether sizes allow for channels that lie last and first at once.
bool may_lie_either_way(const ov::PartialShape& shape) {
    if (shape.size() != 4 && shape.size() != 5) return false;
    return may_be_one(shape[1]) || std::all_of(shape.begin() + 2, shape.end(), may_be_one);
}

std::shared_ptr<ov::Node> integers(const std::vector<std::int64_t>& values) {
    return ov::op::v0::Constant::create(ov::element::i64, {values.size()}, values);
}

/// The repeats of axes from `first` to `end`, 1 for others.
std::shared_ptr<ov::Node> repeats_of(const ov::Output<ov::Node>& repeats, std::size_t rank, std::size_t first,
                                     std::size_t end) {
    std::vector<std::int64_t> chosen(rank, 0), others(rank, 1);
    for (std::size_t axis = first; axis < std::min(end, rank); ++axis)
        std::swap(chosen[axis], others[axis]);
    const auto kept = std::make_shared<ov::op::v1::Multiply>(repeats, integers(chosen));
    return std::make_shared<ov::op::v1::Add>(kept, integers(others));
}

/// A Tile, or several where repeats are not known: the plugin repeats along three axes at once, or two behind others.
ov::Output<ov::Node> tiled(ov::Output<ov::Node> value, const ov::Output<ov::Node>& repeats, std::size_t rank,
                           std::size_t leading) {
    if (ov::is_type<ov::op::v0::Constant>(repeats.get_node()) || rank - leading <= 3)
        return std::make_shared<ov::op::v0::Tile>(value, repeats);
    std::size_t first = leading, end = leading + 3;
    for (; first < rank; first = std::exchange(end, end + 2))
        value = std::make_shared<ov::op::v0::Tile>(value, repeats_of(repeats, rank, first, end));
    return value;
}

//  x ──▶ Tile   ==>   x ──▶ Unsqueeze ──▶ Tile ──▶ Squeeze
bool tile_of_more_axes(const std::shared_ptr<ov::Node>& node) {
    const auto tile = ov::as_type_ptr<ov::op::v0::Tile>(node);
    if (tile == nullptr) return false;
    const ov::PartialShape shape = tile->get_input_partial_shape(0), counts = tile->get_input_partial_shape(1);
    if (shape.rank().is_dynamic() || shape.is_static() || counts.is_dynamic() ||
        ov::shape_size(counts.to_shape()) != shape.size())
        return false;
    const auto known = ov::as_type_ptr<ov::op::v0::Constant>(tile->get_input_node_shared_ptr(1));
    const bool widened = may_lie_either_way(shape);
    if (!widened && (known != nullptr || shape.size() < 4)) return false;
    std::vector<std::int64_t> added(widened ? plain_rank - shape.size() : 0);
    std::iota(added.begin(), added.end(), 0);
    ov::Output<ov::Node> value = tile->input_value(0), repeats;
    if (known != nullptr) {
        std::vector<std::int64_t> values = known->cast_vector<std::int64_t>();
        values.insert(values.begin(), added.size(), 1);
        repeats = integers(values);
    } else {
        repeats = std::make_shared<ov::op::v0::Convert>(tile->input_value(1), ov::element::i64);
        const std::vector<std::int64_t> ones(added.size(), 1);
        if (widened) repeats = std::make_shared<ov::op::v0::Concat>(ov::OutputVector{integers(ones), repeats}, 0);
    }
    if (widened) value = std::make_shared<ov::op::v0::Unsqueeze>(value, integers(added));
    value = tiled(value, repeats, shape.size() + added.size(), added.size());
    if (widened) value = std::make_shared<ov::op::v0::Squeeze>(value, integers(added));
    value.get_node()->set_friendly_name(tile->get_friendly_name());
    tile->output(0).replace(value);
    return true;
}

} // namespace

void keep_tiles_plain(ov::Model& model) { change_nodes(model, tile_of_more_axes); }

} // namespace lathe::openvino
