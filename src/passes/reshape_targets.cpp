#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

constexpr std::int64_t as_before = 0, what_is_left = -1; // what Reshape takes in the place of a size

/// Whether the value, of one element, is the size of that axis of `data`.
bool is_size(const Site& site, const std::string& value, const std::string& data, std::size_t axis) {
    const Node* wide = site.uses.producer(value);
    const std::string& size = wide != nullptr && wide->is("Unsqueeze") ? wide->input(0) : value;
    return is_size_of(site.graph, site.uses, size, data, axis);
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
        } else if (!has_one_element(site.graph, piece)) {
            return false;
        } else {
            target.push_back(is_size(site, piece, root.input(0), target.size()) ? as_before : what_is_left);
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
