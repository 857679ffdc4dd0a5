#include "backends/cuda/plan/lines.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "backends/cuda/plan/patterns/point_program.hpp"
#include "backends/cuda/plan/spelling_tools.hpp"
#include "passes/rewrite.hpp"

namespace lathe::cuda {
namespace {

constexpr std::string_view image_suffix = "/image";

Shape as_image(const Shape& line) { return {line[0], line[1], 1, line[2]}; }

bool is_convolution(const Node& node) { return node.is("Conv") || node.is("ConvTranspose"); }

class Lines {
public:
    Lines(Graph& graph, std::int64_t opset, std::size_t inputs) : graph_(graph), opset_(opset) {
        for (std::size_t i = inputs; i < graph.inputs.size(); ++i)
            weights_.insert(graph.inputs[i].name);
        for (const auto& node : graph.nodes)
            if (node->is("DequantizeLinear") && is_fixed(node->input(0))) int8_weights_.insert(node->output(0));
    }

    bool run() {
        collect();
        if (lines_.empty()) return false;
        std::vector<std::unique_ptr<Node>> nodes;
        std::swap(nodes, graph_.nodes);
        std::set<std::string> images; // those that are made
        const auto reshape = [&](const std::string& from, const std::string& to, const Shape& dims) {
            Node node = reshape_node(graph_, from, dims);
            node.name = to;
            node.outputs = {to};
            graph_.add(std::move(node));
        };
        for (auto& node : nodes) {
            if (!taken_.contains(node.get())) {
                graph_.nodes.push_back(std::move(node));
                continue;
            }
            for (const std::string& input : node->inputs) {
                if (!lines_.contains(input) || !images.insert(input).second) continue;
                reshape(input, image_of(input), as_image(dims_of(graph_, input)));
            }
            const std::vector<std::string> results = node->outputs;
            change(*node);
            graph_.nodes.push_back(std::move(node));
            for (const std::string& result : results) {
                if (result.empty()) continue;
                images.insert(result);
                reshape(image_of(result), result, dims_of(graph_, result));
            }
        }
        return true;
    }

private:
    /// The name of a line as an image; what is known of it is written.
    const std::string& image_of(const std::string& line) {
        const auto [found, added] = images_.try_emplace(line);
        if (!added) return found->second;
        found->second = graph_.unique_name(line + std::string(image_suffix));
        ValueInfo info = graph_.info_or_name(line);
        info.name = found->second;
        info.dims->insert(info.dims->begin() + 2, Dimension::of(1));
        if (info.dims->size() == 3) info.dims->push_back(Dimension::of(1)); // of a mean that drops its axis
        graph_.value_infos.insert_or_assign(info.name, info);
        return found->second;
    }

    bool is_line(const std::string& value) const {
        return graph_.constant(value) == nullptr && !weights_.contains(value) && dims_of(graph_, value).size() == 3 &&
               element_count(dims_of(graph_, value)) > 0;
    }

    bool is_fixed(const std::string& value) const {
        return weights_.contains(value) || graph_.constant(value) != nullptr;
    }
    /// Filters that convolutions are refused without: constant, as they are or in int8.
    bool is_filter(const std::string& value) const {
        return dims_of(graph_, value).size() == 3 && (is_fixed(value) || int8_weights_.contains(value));
    }

    bool constant_at(const Node& node, std::size_t from) const {
        for (std::size_t i = from; i < node.inputs.size(); ++i)
            if (!node.input(i).empty() && graph_.constant(node.input(i)) == nullptr) return false;
        return true;
    }

    /// Whether a node does the same with images of one row; which of its inputs are lines: the first, or `all`.
    bool fits(const Node& node, bool& all) const {
        all = false;
        if (!node.domain.empty() || node.outputs.empty()) return false;
        if (node.is("ReduceMean") || node.is("ReduceMax") || node.is("ReduceSum")) {
            const auto axes = constant_integers(graph_, node, "axes", 1);
            return is_line(node.input(0)) && axes && axes->size() == 1 && (axes->front() == 2 || axes->front() == -1);
        }
        if (!is_line(node.output(0))) return false;
        if (is_convolution(node)) return is_line(node.input(0)) && is_filter(node.input(1));
        if (node.is("Concat")) {
            all = true;
            return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const auto& each) { return is_line(each); });
        }
        if (!is_line(node.input(0)) && !is_pointwise(node)) return false;
        if (node.is("MaxPool") || node.is("AveragePool")) return node.outputs.size() == 1;
        if (node.is("GlobalAveragePool") || node.is("GlobalMaxPool")) return true;
        if (node.is("InstanceNormalization") || node.is("GroupNormalization"))
            return node.outputs.size() == 1 && constant_at(node, 1);
        if (node.is("QuantizeLinear") || node.is("DequantizeLinear")) {
            const Tensor* scale = graph_.constant(node.input(1));
            return scale != nullptr && scale->count() == 1;
        }
        if (node.is("Slice"))
            return opset_ >= 10 && constant_at(node, 1) && !node.input(1).empty() &&
                   (!node.input(3).empty() || graph_.constant(node.input(1))->count() == 3);
        if (node.is("Split"))
            return constant_at(node, 1) && std::all_of(node.outputs.begin(), node.outputs.end(),
                                                       [&](const auto& each) { return is_line(each); });
        if (node.is("Pad")) return constant_pads(graph_, node, 3, opset_).has_value() && constant_at(node, 1);
        if (!is_pointwise(node) || node.is("Expand") || node.outputs.size() != 1) return false;
        if (node.is("BatchNormalization")) return is_line(node.input(0));
        all = true;
        bool any = false;
        for (const std::string& each : node.inputs) {
            if (each.empty()) continue;
            const bool line = is_line(each);
            any = any || line;
            if (!line && (graph_.constant(each) == nullptr || graph_.constant(each)->shape().size() > 3) &&
                !(dims_of(graph_, each).empty() && graph_.info(each)))
                return false;
        }
        return any;
    }

    /// What convolutions make and read, and what reaches it by nodes that fit.
    void collect() {
        std::vector<std::pair<const Node*, bool>> candidates;
        for (const auto& node : graph_.nodes) {
            bool all = false;
            if (!fits(*node, all)) continue;
            candidates.emplace_back(node.get(), all);
            if (!is_convolution(*node)) continue;
            lines_.insert(node->input(0));
            lines_.insert(node->output(0));
        }
        for (bool grew = !lines_.empty(); grew;) {
            grew = false;
            for (const auto& [node, all] : candidates) {
                if (taken_.contains(node)) continue;
                std::vector<std::string> own(node->outputs.begin(), node->outputs.end());
                for (std::size_t i = 0; i < (all ? node->inputs.size() : 1); ++i)
                    if (is_line(node->input(i))) own.push_back(node->input(i));
                std::erase(own, "");
                if (std::none_of(own.begin(), own.end(), [&](const auto& each) { return lines_.contains(each); }))
                    continue;
                lines_.insert(own.begin(), own.end());
                taken_.insert(node);
                grew = true;
            }
        }
    }

    std::string integers(const std::vector<std::int64_t>& values) {
        return add_constant(graph_, "integers",
                            Tensor::of_int64s("", {static_cast<std::int64_t>(values.size())}, values));
    }
    static std::int64_t moved_axis(std::int64_t axis) {
        return axis == 2 || axis == -1 ? 3 : axis < 0 ? axis + 3 : axis;
    }

    void change(Node& node) {
        const auto before_columns = [&](const char* name, std::int64_t row) {
            auto values = node.ints_or(name, {});
            if (values.size() != 1) return;
            values.insert(values.begin(), row);
            node.set(name, values);
        };
        if (is_convolution(node) || node.is("MaxPool") || node.is("AveragePool")) {
            before_columns("kernel_shape", 1);
            before_columns("output_padding", 0);
            before_columns("strides", 1);
            before_columns("dilations", 1);
            if (const auto pads = node.ints_or("pads", {}); pads.size() == 2)
                node.set("pads", std::vector<std::int64_t>{0, pads[0], 0, pads[1]});
        } else if (node.is("Concat") || node.is("Split")) {
            node.set("axis", moved_axis(node.int_or("axis", 0)));
        } else if (node.is("Slice")) {
            std::vector<std::int64_t> axes{0, 1, 2};
            if (!node.input(3).empty()) axes = graph_.constant(node.input(3))->to_int64s();
            for (std::int64_t& axis : axes)
                axis = moved_axis(axis);
            node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 4));
            node.inputs[3] = integers(axes);
        } else if (node.is("Pad")) {
            const auto pads = *constant_pads(graph_, node, 3, opset_);
            const std::vector<std::int64_t> whole{pads[0], pads[1], 0, pads[2], pads[3], pads[4], 0, pads[5]};
            if (opset_ < 11) {
                node.set("pads", whole);
            } else {
                node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 3));
                node.inputs[1] = integers(whole);
            }
        } else if (node.is("ReduceMean") || node.is("ReduceMax") || node.is("ReduceSum")) {
            if (node.input(1).empty())
                node.set("axes", std::vector<std::int64_t>{2, 3});
            else
                node.inputs[1] = integers({2, 3});
            node.set("keepdims", std::int64_t{1});
        } else if (is_pointwise(node) && !node.is("BatchNormalization")) {
            for (std::string& input : node.inputs) {
                const Tensor* constant = graph_.constant(input);
                if (constant == nullptr || constant->shape().size() < 2) continue;
                Shape dims = constant->shape();
                dims.insert(dims.end() - 1, 1);
                input = add_constant(graph_, "of_line", constant->reshaped(dims));
            }
        }
        for (std::string& input : node.inputs)
            if (lines_.contains(input)) input = image_of(input);
        for (std::string& output : node.outputs)
            if (!output.empty()) output = image_of(output);
    }

    Graph& graph_;
    std::int64_t opset_;
    std::set<std::string> weights_;      ///< large constants
    std::set<std::string> int8_weights_; ///< what constants in int8 stand for
    std::set<std::string> lines_;
    std::set<const Node*> taken_;
    std::map<std::string, std::string> images_;
};

} // namespace

std::string line_of(const std::string& value) {
    return value.ends_with(image_suffix) ? value.substr(0, value.size() - image_suffix.size()) : "";
}

bool write_lines_as_images(Graph& graph, std::int64_t opset, std::size_t inputs) {
    return Lines(graph, opset, inputs).run();
}

} // namespace lathe::cuda
