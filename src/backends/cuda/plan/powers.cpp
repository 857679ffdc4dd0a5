#include "backends/cuda/plan/powers.hpp"

#include <algorithm>
#include <limits>

namespace lathe::cuda {
namespace {

/// Nodes that take another's place, one behind the other.
class PowerWriter {
public:
    PowerWriter(Graph& graph, const Node& node, std::int64_t opset) : graph_(graph), node_(node), opset_(opset) {}

    std::string add(const char* type, std::vector<std::string> inputs) {
        Node made;
        made.op_type = type;
        made.name = node_.name + "/" + type;
        made.inputs = std::move(inputs);
        made.outputs = {graph_.unique_name(node_.output(0) + "/" + type)};
        nodes_.push_back(std::move(made));
        return nodes_.back().outputs[0];
    }
    std::string number(float value) {
        std::string name = graph_.unique_name(node_.output(0) + "/number");
        graph_.initializers.insert_or_assign(name, Tensor::of_floats(name, {}, std::span(&value, 1)));
        return name;
    }
    /// |x|^p
    std::string power(const std::string& x, std::int64_t p) {
        if (p == 2) return add("Mul", {x, x});
        const std::string size = add("Abs", {x});
        return p == 1 ? size : add("Pow", {size, number(static_cast<float>(p))});
    }
    std::string root(const std::string& x, std::int64_t p) {
        if (p == 1) return x;
        return p == 2 ? add("Sqrt", {x}) : add("Pow", {x, number(1 / static_cast<float>(p))});
    }
    /// Sum over axes, which stay with size 1.
    std::string sum(const std::string& x, const std::vector<std::int64_t>& axes) {
        std::vector<std::string> inputs{x};
        if (opset_ >= 13) {
            inputs.push_back(graph_.unique_name(node_.output(0) + "/axes"));
            graph_.initializers.insert_or_assign(
                inputs[1], Tensor::of_int64s(inputs[1], {static_cast<std::int64_t>(axes.size())}, std::span(axes)));
        }
        const std::string result = add("ReduceSum", inputs);
        nodes_.back().set("keepdims", std::int64_t{1});
        if (opset_ < 13) nodes_.back().set("axes", axes);
        return result;
    }
    std::vector<Node> end(const std::string& value) {
        add("Identity", {value});
        nodes_.back().outputs = node_.outputs;
        nodes_.back().name = node_.name;
        return std::move(nodes_);
    }
    Node& last() { return nodes_.back(); }

private:
    Graph& graph_;
    const Node& node_;
    std::int64_t opset_;
    std::vector<Node> nodes_;
};

std::vector<Node> power_written_out(Graph& graph, const Node& node, std::int64_t opset) {
    const auto info = graph.info(node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    if (!shape || shape->empty() || info->type != DataType::float32) return {};
    const auto rank = static_cast<std::int64_t>(shape->size());
    const std::int64_t p = node.int_or("p", 2);
    if (p < 1) return {};
    PowerWriter writer(graph, node, opset);
    const std::string& x = node.input(0);
    if (node.is("LpNormalization")) {
        const std::int64_t given = node.int_or("axis", -1), axis = given < 0 ? given + rank : given;
        if (axis < 0 || axis >= rank || p > 2) return {};
        const std::string norm = writer.root(writer.sum(writer.power(x, p), {axis}), p);
        // Of zeros alone: 0 / least is 0.
        const std::string safe = writer.add("Max", {norm, writer.number(std::numeric_limits<float>::min())});
        return writer.end(writer.add("Div", {x, safe}));
    }
    if (rank < 3) return {};
    if (node.is("GlobalLpPool")) {
        std::vector<std::int64_t> axes;
        for (std::int64_t axis = 2; axis < rank; ++axis)
            axes.push_back(axis);
        return writer.end(writer.root(writer.sum(writer.power(x, p), axes), p));
    }
    const auto kernel = node.ints_or("kernel_shape", {});
    const auto dilations = node.ints_or("dilations", {});
    const bool dilated = std::any_of(dilations.begin(), dilations.end(), [](std::int64_t n) { return n != 1; });
    if (node.int_or("ceil_mode", 0) != 0 || kernel.empty() || (dilated && opset < 19)) return {};
    std::int64_t area = 1;
    for (const std::int64_t size : kernel)
        area *= size;
    const std::string powers = writer.power(x, p);
    const std::string mean = writer.add("AveragePool", {powers});
    Node& pool = writer.last();
    for (const char* name : {"kernel_shape", "strides", "pads"})
        if (node.attribute(name) != nullptr) pool.set(name, node.ints_or(name, {}));
    if (dilated) pool.set("dilations", dilations);
    if (node.attribute("auto_pad") != nullptr) pool.set("auto_pad", node.string_or("auto_pad", "NOTSET"));
    pool.set("count_include_pad", std::int64_t{1});
    const std::string sum = writer.add("Mul", {mean, writer.number(static_cast<float>(area))});
    return writer.end(writer.root(sum, p));
}

} // namespace

bool write_out_powers(Graph& graph, std::int64_t opset) {
    bool changed = false;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = *graph.nodes[i];
        if (!node.is("LpNormalization") && !node.is("LpPool") && !node.is("GlobalLpPool")) continue;
        std::vector<Node> nodes = power_written_out(graph, node, opset);
        if (nodes.empty()) continue;
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        for (Node& each : nodes)
            graph.insert(i++, std::move(each));
        --i;
        changed = true;
    }
    return changed;
}

} // namespace lathe::cuda
