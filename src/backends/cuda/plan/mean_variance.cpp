#include "backends/cuda/plan/mean_variance.hpp"

#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {
namespace {

bool write_normalization(Graph& graph, std::size_t& at, std::int64_t opset) {
    constexpr float least = 1e-9F; // ONNX's, beside the deviation
    Node& node = *graph.nodes[at];
    const DataType type = type_of(graph, node.input(0));
    if (!is_floating(type)) return false;
    const auto axes = node.ints_or("axes", {0, 2, 3});
    NodesBefore to(graph, at);
    const auto mean_of = [&](const std::string& value, const char* what) {
        Node mean = make_node("ReduceMean", {value});
        if (opset < 18) {
            mean.set("axes", axes);
        } else {
            mean.inputs.push_back(to.integers(axes, {static_cast<std::int64_t>(axes.size())}));
        }
        return to.add(std::move(mean), what);
    };
    const std::string mean = mean_of(node.input(0), "mean");
    const std::string left = to.add(make_node("Sub", {node.input(0), mean}), "left");
    const std::string variance = mean_of(to.add(make_node("Mul", {left, left}), "squares"), "variance");
    const std::string deviation = to.add(make_node("Sqrt", {variance}), "deviation");
    const std::string divisor =
        to.add(make_node("Add", {deviation, add_scalar(graph, "least", type, least)}), "divisor");
    const Node origin = node;
    become(node, make_node("Div", {left, divisor}), origin);
    return true;
}

} // namespace

bool write_out_mean_variance(Graph& graph, std::int64_t opset) {
    return rewrite_each(graph, "MeanVarianceNormalization",
                        [&](Graph& of, std::size_t& at) { return write_normalization(of, at, opset); });
}

} // namespace lathe::cuda
