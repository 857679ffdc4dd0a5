#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::cuda {

/// Numbers of a constant that a rewrite makes: as many as a large layer's weights, and no more.
inline constexpr std::int64_t most_numbers = std::int64_t{1} << 24;

/// The product of the sizes from one axis up to another.
std::int64_t elements_between(const Shape& dims, std::size_t from, std::size_t to);

/// Rewrites every node of a type by `write(graph, at)`, which moves the place `at` along with the node. True if any
/// was.
template <class Write>
bool rewrite_each(Graph& graph, std::string_view type, Write write) {
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at)
        if (graph.nodes[at]->is(type)) changed = write(graph, at) || changed;
    return changed;
}

/// Puts nodes before one of the graph's, whose place `at` moves along, and names what they give after its result.
class NodesBefore {
public:
    NodesBefore(Graph& graph, std::size_t& at) : graph_(graph), at_(at), stem_(graph.nodes[at]->output(0)) {}

    std::string add(Node node, const char* what);
    std::string constant(const char* what, const Tensor& tensor);
    std::string integers(const std::vector<std::int64_t>& values, Shape shape);
    /// A Reshape, not yet in the graph, and one that is.
    Node reshape(const std::string& value, const Shape& to);
    std::string reshaped(const std::string& value, const Shape& to) { return add(reshape(value, to), "reshape"); }
    std::string transposed(const std::string& value, std::vector<std::int64_t> order);
    std::string joined(std::vector<std::string> values, std::int64_t axis);
    std::string gathered(const std::string& value, const std::string& places, std::int64_t axis);
    std::string product(const std::string& left, const std::string& right) {
        return add(make_node("MatMul", {left, right}), "product");
    }

private:
    Graph& graph_;
    std::size_t& at_;
    std::string stem_;
};

} // namespace lathe::cuda
