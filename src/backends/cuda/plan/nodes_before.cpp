#include "backends/cuda/plan/nodes_before.hpp"

#include <algorithm>

namespace lathe::cuda {

std::optional<Shape> sizes_of(const Graph& graph, const std::string& value) {
    const auto shape = graph.info_or_name(value).shape();
    const bool whole = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t n) { return n > 0; });
    return whole ? shape : std::nullopt;
}

std::optional<std::int64_t> integer_of(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    if (tensor == nullptr || tensor->count() != 1) return std::nullopt;
    return tensor->to_int64s().front();
}

std::string NodesBefore::add(Node node, const char* what) {
    std::string name = graph_.unique_name(stem_ + "/" + what);
    node.outputs = {name};
    node.name = name;
    graph_.insert(at_++, std::move(node));
    return name;
}

std::string NodesBefore::constant(const char* what, const Tensor& tensor) {
    return add_constant(graph_, stem_ + "/" + what, tensor);
}

std::string NodesBefore::integers(const std::vector<std::int64_t>& values, Shape shape) {
    return constant("sizes", Tensor::of_int64s("", std::move(shape), values));
}

Node NodesBefore::reshape(const std::string& value, const Shape& to) {
    return make_node("Reshape", {value, integers(to, {static_cast<std::int64_t>(to.size())})});
}

std::string NodesBefore::transposed(const std::string& value, std::vector<std::int64_t> order) {
    Node turn = make_node("Transpose", {value});
    turn.set("perm", std::move(order));
    return add(std::move(turn), "turned");
}

std::string NodesBefore::joined(std::vector<std::string> values, std::int64_t axis) {
    Node join = make_node("Concat", std::move(values));
    join.set("axis", axis);
    return add(std::move(join), "joined");
}

std::string NodesBefore::gathered(const std::string& value, const std::string& places, std::int64_t axis) {
    Node gather = make_node("Gather", {value, places});
    gather.set("axis", axis);
    return add(std::move(gather), "gathered");
}

} // namespace lathe::cuda
