#include "backends/cuda/plan/determinants.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t widest = 4; // 24 products

//  x [.., n, n]   ==>   Gather of n numbers a permutation -> ReduceProd -> MatMul with the permutations' signs
//
// Leibniz' formula.
bool write_determinant(Graph& graph, std::size_t& at, std::int64_t opset) {
    Node& node = *graph.nodes[at];
    const auto x = known_sizes(graph, node.input(0));
    if (!x || x->size() < 2 || x->back() > widest || (*x)[x->size() - 2] != x->back()) return false;
    const std::int64_t n = x->back(), matrices = element_count(*x) / (n * n);
    Sizes order(static_cast<std::size_t>(n)), places;
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> signs;
    do {
        float sign = 1;
        for (std::size_t i = 0; i < order.size(); ++i) {
            places.push_back(static_cast<std::int64_t>(i) * n + order[i]);
            for (std::size_t k = 0; k < i; ++k)
                if (order[k] > order[i]) sign = -sign;
        }
        signs.push_back(sign);
    } while (std::next_permutation(order.begin(), order.end()));
    const auto count = static_cast<std::int64_t>(signs.size());
    const auto factors = finite_tensor(type_of(graph, node.input(0)), {count, 1}, signs);
    if (!factors) return false;
    NodesBefore to(graph, at);
    const std::string numbers = to.reshaped(node.input(0), {matrices, n * n});
    Node products = make_node("ReduceProd", {to.gathered(numbers, to.integers(places, {count, n}), 1)});
    // The axes became an input in opset 18.
    if (opset >= 18)
        products.inputs.push_back(to.integers({2}, {1}));
    else
        products.set("axes", Sizes{2});
    products.set("keepdims", std::int64_t{0});
    const std::string sum = to.product(to.add(std::move(products), "products"), to.constant("signs", *factors));
    const Node origin = node;
    become(node, to.reshape(sum, Shape(x->begin(), x->end() - 2)), origin);
    return true;
}

} // namespace

bool write_out_determinants(Graph& graph, std::int64_t opset) {
    return rewrite_each(graph, "Det", [&](Graph&, std::size_t& at) { return write_determinant(graph, at, opset); });
}

} // namespace lathe::cuda
