#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

constexpr std::int64_t as_before = 0, what_is_left = -1; // what Reshape takes in the place of a size

/// Whether an axis of one value is surely as long as an axis of another.
bool same_size(const Graph& graph, const std::string& a, std::size_t axis_a, const std::string& b, std::size_t axis_b) {
    const ValueInfo x = graph.info_or_name(a), y = graph.info_or_name(b);
    if (axis_a == axis_b && a == b) return true;
    return x.dims && y.dims && axis_a < x.dims->size() && axis_b < y.dims->size() &&
           same_dimension((*x.dims)[axis_a], (*y.dims)[axis_b]);
}

bool has_one_element(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info && info->dims && info->dims->size() == 1 && (*info->dims)[0].size == 1;
}

bool constant_target(const Site& site) {
    Node& root = site.root;
    const Node* concat = site.uses.producer(root.input(1));
    if (concat == nullptr || !concat->is("Concat") || root.int_or("allowzero", 0) != 0) return false;
    std::vector<std::int64_t> target;
    for (const std::string& piece : concat->inputs) {
        if (const Tensor* tensor = site.graph.constant(piece)) {
            const auto sizes = tensor->to_int64s();
            target.insert(target.end(), sizes.begin(), sizes.end());
        } else if (const auto part = part_of_shape(site.graph, site.uses, piece)) {
            for (std::size_t axis = part->first; axis < part->end; ++axis) {
                const bool kept = same_size(site.graph, part->value, axis, root.input(0), target.size());
                target.push_back(kept ? as_before : what_is_left);
            }
        } else if (has_one_element(site.graph, piece)) {
            target.push_back(what_is_left);
        } else {
            return false;
        }
    }
    if (std::ranges::count(target, what_is_left) > 1) return false;
    const auto count = static_cast<std::int64_t>(target.size());
    root.inputs[1] = add_constant(site.graph, root.input(1), Tensor::of_int64s("", {count}, target));
    return true;
}

} // namespace

//  Reshape(x, Concat(Shape(x)[0], 2, 58, n))   ==>   Reshape(x, [0, 2, 58, -1])
Result<bool> constant_reshape_targets(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("Reshape"), constant_target}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
