#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::cuda {

/// Known sizes of a value that has elements.
std::optional<Shape> sizes_of(const Graph& graph, const std::string& value);
/// Of a constant that is one integer.
std::optional<std::int64_t> integer_of(const Graph& graph, const std::string& value);

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
