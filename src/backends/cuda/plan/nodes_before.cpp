#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {

std::int64_t elements_between(const Shape& dims, std::size_t from, std::size_t to) {
    std::int64_t count = 1;
    for (std::size_t i = from; i < to; ++i)
        count *= dims[i];
    return count;
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
