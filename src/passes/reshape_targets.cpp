#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

constexpr std::int64_t as_before = 0, what_is_left = -1; // what Reshape takes in the place of a size

std::optional<std::int64_t> number_in(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    const auto numbers = tensor == nullptr ? std::vector<std::int64_t>{} : tensor->to_int64s();
    return numbers.size() == 1 ? std::optional(numbers[0]) : std::nullopt;
}

/// Whether the value, of one element, is the size of that axis of `data`.
bool is_size(const Site& site, const std::string& value, const std::string& data, std::size_t axis) {
    const Node* node = site.uses.producer(value);
    if (node != nullptr && node->is("Unsqueeze")) node = site.uses.producer(node->input(0));
    if (node == nullptr || !node->is("Gather")) return false;
    const Node* shape = site.uses.producer(node->input(0));
    if (shape == nullptr || !shape->is("Shape") || !shape->attributes.empty()) return false;
    const auto index = number_in(site.graph, node->input(1));
    const bool same = shape->input(0) == data || same_shape(site.graph, shape->input(0), data);
    return same && index && *index == static_cast<std::int64_t>(axis);
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
