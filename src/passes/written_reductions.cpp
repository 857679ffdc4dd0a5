#include "passes/written_reductions.hpp"

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "passes/rewrite.hpp"

namespace lathe {

namespace {

/// Nodes over the axes of one reduction. Axes are an input from opset 13 on in ReduceSum and Squeeze, from 18 on in the
/// others.
class ReductionWriter {
public:
    ReductionWriter(Graph& graph, const Node& node, std::int64_t opset)
        : graph_(graph), node_(node), opset_(opset), axes_(node.ints_or("axes", {})) {}

    std::string add(Node node, const char* what) {
        node.outputs = {graph_.unique_name(node_.output(0) + what)};
        nodes_.push_back(std::move(node));
        return nodes_.back().outputs[0];
    }
    std::string add(const char* op, std::vector<std::string> inputs, const char* what) {
        return add(make_node(op, std::move(inputs)), what);
    }
    Node reduction(const char* op, const std::string& of, std::int64_t keep) {
        Node made = make_node(op, {of});
        give_axes(made, std::string_view(op) == "ReduceSum" ? 13 : 18);
        if (const Attribute* noop = node_.attribute("noop_with_empty_axes"))
            made.set("noop_with_empty_axes", noop->value);
        made.set("keepdims", keep);
        return made;
    }
    void give_axes(Node& made, std::int64_t since) {
        if (!node_.input(1).empty()) {
            made.inputs.push_back(node_.input(1));
        } else if (!axes_.empty() && opset_ < since) {
            made.set("axes", axes_);
        } else if (!axes_.empty()) {
            const Shape count{static_cast<std::int64_t>(axes_.size())};
            made.inputs.push_back(add_constant(graph_, node_.output(0) + "_axes", Tensor::of_int64s("", count, axes_)));
        }
    }
    /// The last node gives what the reduction gave.
    std::vector<Node> take(Node last) {
        last.outputs = {node_.output(0)};
        nodes_.push_back(std::move(last));
        return std::move(nodes_);
    }
    bool reduces() const {
        return !node_.input(1).empty() || !axes_.empty() || node_.int_or("noop_with_empty_axes", 0) == 0;
    }

private:
    Graph& graph_;
    const Node& node_;
    std::int64_t opset_;
    std::vector<std::int64_t> axes_;
    std::vector<Node> nodes_;
};

/// Clip to what is finite, so that infinity less infinity does not become NaN.
Node finite(Graph& graph, const std::string& of, std::int64_t opset) {
    constexpr float most = std::numeric_limits<float>::max();
    if (opset >= 11) {
        const auto limit = [&](float value) { return add_scalar(graph, of + "_limit", DataType::float32, value); };
        return make_node("Clip", {of, limit(-most), limit(most)});
    }
    Node clip = make_node("Clip", {of});
    clip.set("min", -most);
    clip.set("max", most);
    return clip;
}

} // namespace

//  x ──▶ ReduceL1 ──▶ y          ==>   x ──▶ Abs ──▶ ReduceSum ──▶ y
//  x ──▶ ReduceSumSquare ──▶ y   ==>   x · x ──▶ ReduceSum ──▶ y
//  x ──▶ ReduceLogSum ──▶ y      ==>   x ──▶ ReduceSum ──▶ Log ──▶ y
//  x ──▶ ReduceLogSumExp ──▶ y   ==>   x - m ──▶ Exp ──▶ ReduceSum ──▶ Log ──▶ + m ──▶ y
// with m = Clip(ReduceMax(x)), since ONNX's own form is infinite from 89 on.
std::vector<Node> written_reduction(Graph& graph, const Node& node, std::int64_t opset) {
    ReductionWriter writer(graph, node, opset);
    const std::string& x = node.input(0);
    const std::int64_t keep = node.int_or("keepdims", 1);
    if (node.is("ReduceL1")) return writer.take(writer.reduction("ReduceSum", writer.add("Abs", {x}, "_first"), keep));
    if (node.is("ReduceSumSquare"))
        return writer.take(writer.reduction("ReduceSum", writer.add("Mul", {x, x}, "_first"), keep));
    if (node.is("ReduceLogSum"))
        return writer.take(make_node("Log", {writer.add(writer.reduction("ReduceSum", x, keep), "_sum")}));
    if (!node.is("ReduceLogSumExp")) return {};
    std::string largest = writer.add(writer.reduction("ReduceMax", x, 1), "_max");
    if (type_of(graph, x) == DataType::float32) largest = writer.add(finite(graph, largest, opset), "_finite");
    const std::string first = writer.add("Exp", {writer.add("Sub", {x, largest}, "_less")}, "_first");
    const std::string log = writer.add("Log", {writer.add(writer.reduction("ReduceSum", first, 1), "_sum")}, "_log");
    Node all = make_node("Add", {log, largest});
    if (keep != 0 || !writer.reduces()) return writer.take(std::move(all));
    Node squeeze = make_node("Squeeze", {writer.add(std::move(all), "_kept")});
    writer.give_axes(squeeze, 13);
    return writer.take(std::move(squeeze));
}

bool write_out_reductions(Graph& graph, std::int64_t opset, const std::function<bool(const Node&)>& wanted) {
    return replace_each(graph, [&](const Node& node) {
        return wanted(node) ? written_reduction(graph, node, opset) : std::vector<Node>{};
    });
}

} // namespace lathe
