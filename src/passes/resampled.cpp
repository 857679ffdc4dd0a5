#include "passes/resampled.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe {
namespace {

/// Weights of an axis: as much as a layer of a large network, and no more.
constexpr std::int64_t most_weights = std::int64_t{1} << 24;

struct SamplingForm {
    std::string mode, coordinates, nearest;
    double cubic_a = -0.75;
    bool antialias = false, exclude_outside = false;
};

struct Axis {
    std::size_t axis = 0;
    std::int64_t from = 0, to = 0;
    double scale = 1, start = 0, end = 1; ///< start and end of what is cropped, in parts of the axis
};

bool is_whole(const Axis& axis) {
    return axis.from == axis.to && std::abs(axis.scale - 1) < 1e-9 && axis.start == 0 && axis.end == 1;
}

/// Where number i of the result lies in the input (the ONNX operator specification).
double place(const SamplingForm& form, const Axis& axis, std::int64_t i) {
    const auto at = static_cast<double>(i), size = static_cast<double>(axis.from);
    const double exact = axis.scale * size; // the size before it was cut
    if (form.coordinates == "align_corners") return exact == 1 ? 0 : at * (size - 1) / (exact - 1);
    if (form.coordinates == "asymmetric") return at / axis.scale;
    if (form.coordinates == "tf_crop_and_resize") {
        const double width = (axis.end - axis.start) * (size - 1);
        return axis.start * (size - 1) + (exact == 1 ? width / 2 : at * width / (exact - 1));
    }
    if (form.coordinates == "pytorch_half_pixel" && exact == 1) return -0.5;
    const double offset =
        form.coordinates == "half_pixel_symmetric" ? size / 2 * (1 - static_cast<double>(axis.to) / exact) : 0;
    return offset + (at + 0.5) / axis.scale - 0.5;
}

double nearest(const std::string& how, double at) {
    if (how == "floor") return std::floor(at);
    if (how == "ceil") return std::ceil(at);
    return how == "round_prefer_ceil" ? std::floor(at + 0.5) : std::ceil(at - 0.5);
}

/// How much a number at this distance counts (linear; Keys' cubic).
double kernel(const SamplingForm& form, double distance) {
    const double t = std::abs(distance), a = form.cubic_a;
    if (form.mode == "linear") return std::max(0.0, 1 - t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// Weights [from, to] of an axis; which results lie outside of what is cropped, whose weights are 0.
struct Weights {
    std::vector<float> numbers;
    std::vector<bool> outside;
};

Weights weights_of(const SamplingForm& form, const Axis& axis) {
    Weights made{std::vector<float>(static_cast<std::size_t>(axis.from * axis.to)),
                 std::vector<bool>(static_cast<std::size_t>(axis.to))};
    const std::int64_t last = axis.from - 1;
    const double narrowed = form.antialias ? std::min(axis.scale, 1.0) : 1.0;
    const double reach = (form.mode == "linear" ? 1 : 2) / narrowed;
    std::vector<double> column(static_cast<std::size_t>(axis.from));
    for (std::int64_t i = 0; i < axis.to; ++i) {
        const double at = place(form, axis, i);
        if (form.coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(last))) {
            made.outside[static_cast<std::size_t>(i)] = true;
            continue;
        }
        std::fill(column.begin(), column.end(), 0.0);
        const auto inside = [&](double k) {
            return static_cast<std::size_t>(std::clamp(k, 0.0, static_cast<double>(last)));
        };
        double sum = 1;
        if (form.mode == "nearest") {
            column[inside(nearest(form.nearest, at))] = 1;
        } else {
            double all = 0, kept = 0;
            for (double k = std::floor(at - reach); k <= std::ceil(at + reach); ++k) {
                const double weight = kernel(form, (k - at) * narrowed);
                const bool beside = k < 0 || k > static_cast<double>(last);
                all += weight;
                if (form.exclude_outside && beside) continue;
                kept += weight;
                column[inside(k)] += weight;
            }
            if (form.antialias) sum = all;
            if (form.exclude_outside) sum = kept;
            if (sum == 0) sum = 1;
        }
        for (std::int64_t k = 0; k <= last; ++k)
            made.numbers[static_cast<std::size_t>(k * axis.to + i)] =
                static_cast<float>(column[static_cast<std::size_t>(k)] / sum);
    }
    return made;
}

std::optional<std::vector<float>> numbers(const Graph& graph, const std::string& value) {
    if (value.empty()) return std::vector<float>();
    const Tensor* tensor = graph.constant(value);
    return tensor == nullptr ? std::nullopt : std::optional(tensor->to_floats());
}

std::optional<SamplingForm> form_of(const Node& node) {
    SamplingForm form;
    form.mode = node.string_or("mode", "nearest");
    form.coordinates = node.string_or("coordinate_transformation_mode", "half_pixel");
    form.nearest = node.string_or("nearest_mode", "round_prefer_floor");
    form.cubic_a = static_cast<double>(node.float_or("cubic_coeff_a", -0.75F));
    form.antialias = node.int_or("antialias", 0) != 0;
    form.exclude_outside = node.int_or("exclude_outside", 0) != 0;
    const auto among = [](const std::string& name, std::initializer_list<const char*> known) {
        return std::any_of(known.begin(), known.end(), [&](const char* each) { return name == each; });
    };
    const bool known = among(form.mode, {"nearest", "linear", "cubic"}) &&
                       among(form.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) &&
                       among(form.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                "align_corners", "asymmetric", "tf_crop_and_resize"});
    return known ? std::optional(form) : std::nullopt;
}

/// Axes that change; nothing where what they follow from is not constant.
std::optional<std::vector<Axis>> axes_of(const Graph& graph, const Node& node, const Shape& in, const Shape& out) {
    const auto rank = static_cast<std::int64_t>(in.size());
    std::vector<std::int64_t> axes = node.ints_or("axes", {});
    if (axes.empty()) {
        axes.resize(in.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    const auto roi = numbers(graph, node.input(1)), scales = numbers(graph, node.input(2)),
               sizes = numbers(graph, node.input(3));
    if (!roi || !scales || !sizes) return std::nullopt;
    const std::size_t count = axes.size();
    if (scales->size() != count && sizes->size() != count) return std::nullopt;
    const bool cropped = node.string_or("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    if (cropped && roi->size() != 2 * count) return std::nullopt;
    std::vector<Axis> made;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t at = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (at < 0 || at >= rank) return std::nullopt;
        Axis axis;
        axis.axis = static_cast<std::size_t>(at);
        axis.from = in[axis.axis];
        axis.to = out[axis.axis];
        axis.scale = static_cast<double>(scales->size() == count ? (*scales)[i] : (*sizes)[i]);
        if (scales->size() != count) axis.scale /= static_cast<double>(axis.from);
        if (cropped) {
            axis.start = static_cast<double>((*roi)[i]);
            axis.end = static_cast<double>((*roi)[count + i]);
        }
        if (!(axis.scale > 0) || axis.from * axis.to > most_weights) return std::nullopt;
        made.push_back(axis);
    }
    const std::string policy = node.string_or("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && scales->size() != count && !made.empty()) {
        const auto by_scale = [](const Axis& a, const Axis& b) { return a.scale < b.scale; };
        const double one = policy == "not_larger" ? std::min_element(made.begin(), made.end(), by_scale)->scale
                                                  : std::max_element(made.begin(), made.end(), by_scale)->scale;
        for (Axis& axis : made)
            axis.scale = one;
    }
    return made;
}

/// Whether it is a form that libraries have a kernel for.
bool is_plain(const Node& node, const SamplingForm& form, const std::vector<Axis>& axes, std::size_t rank) {
    if (form.antialias || form.exclude_outside || node.attribute("axes") != nullptr || (rank != 4 && rank != 5))
        return false;
    if (form.coordinates == "half_pixel_symmetric" || form.coordinates == "tf_crop_and_resize") return false;
    if (node.string_or("keep_aspect_ratio_policy", "stretch") != "stretch") return false;
    return std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) {
        const bool cut = static_cast<float>(axis.from) * static_cast<float>(axis.scale) != static_cast<float>(axis.to);
        return axis.axis < 2 ? is_whole(axis) : form.coordinates != "align_corners" || !cut;
    });
}

class SamplingWriter {
public:
    SamplingWriter(Graph& graph, std::string stem) : graph_(graph), stem_(std::move(stem)) {}

    std::string add(const char* type, std::vector<std::string> inputs, const char* what,
                    const std::vector<std::int64_t>& order = {}) {
        Node node = make_node(type, std::move(inputs));
        if (!order.empty()) node.set("perm", order);
        node.outputs = {graph_.unique_name(stem_ + what)};
        made_.push_back(std::move(node));
        return made_.back().outputs[0];
    }
    /// The axis goes to the end, is multiplied, and back.
    std::string multiply(const std::string& x, std::size_t axis, std::size_t rank, const Tensor& weights) {
        std::vector<std::int64_t> there, back(rank);
        for (std::size_t k = 0; k < rank; ++k)
            if (k != axis) there.push_back(static_cast<std::int64_t>(k));
        there.push_back(static_cast<std::int64_t>(axis));
        for (std::size_t k = 0; k < rank; ++k)
            back[static_cast<std::size_t>(there[k])] = static_cast<std::int64_t>(k);
        const bool last = axis + 1 == rank;
        const std::string matrix = add_constant(graph_, stem_ + "_weights", weights);
        const std::string turned = last ? x : add("Transpose", {x}, "_turned", there);
        const std::string product = add("MatMul", {turned, matrix}, "_resized");
        return last ? product : add("Transpose", {product}, "_back", back);
    }
    std::vector<Node>& nodes() { return made_; }

private:
    Graph& graph_;
    std::string stem_;
    std::vector<Node> made_;
};

/// `value` wherever a result lies outside along any axis, else 0; nothing if none does.
std::optional<Tensor> beside(const std::vector<Axis>& axes, const std::vector<Weights>& weights, std::size_t rank,
                             float value, DataType type) {
    Shape dims(rank, 1);
    bool any = false;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (std::find(weights[i].outside.begin(), weights[i].outside.end(), true) == weights[i].outside.end()) continue;
        dims[axes[i].axis] = axes[i].to;
        any = true;
    }
    if (!any || value == 0) return std::nullopt;
    std::vector<float> made(static_cast<std::size_t>(element_count(dims)));
    for (std::size_t at = 0; at < made.size(); ++at) {
        std::size_t rest = at;
        for (std::size_t d = rank; d-- > 0;) {
            const auto index = rest % static_cast<std::size_t>(dims[d]);
            rest /= static_cast<std::size_t>(dims[d]);
            for (std::size_t i = 0; i < axes.size(); ++i)
                if (axes[i].axis == d && dims[d] != 1 && weights[i].outside[index]) made[at] = value;
        }
    }
    return finite_tensor(type, dims, made);
}

bool write_out_sampling(Graph& graph, std::size_t& at, const std::function<bool(const Node&)>& wanted) {
    Node& node = *graph.nodes[at];
    const ValueInfo info = graph.info_or_name(node.input(0));
    const Shape in = info.shape().value_or(Shape{});
    const Shape out = graph.info_or_name(node.output(0)).shape().value_or(Shape{});
    const auto has_elements = [](const Shape& dims) { return std::ranges::find(dims, 0) == dims.end(); };
    if (in.empty() || in.size() != out.size() || !has_elements(in) || !has_elements(out)) return false;
    const auto form = form_of(node);
    auto axes = form ? axes_of(graph, node, in, out) : std::nullopt;
    if (!axes || (wanted ? !wanted(node) : is_plain(node, *form, *axes, in.size()))) return false;
    std::erase_if(*axes, is_whole); // their sizes may be open
    if (std::ranges::any_of(*axes, [](const Axis& axis) { return axis.from < 1 || axis.to < 1; })) return false;
    std::vector<Weights> weights;
    std::vector<Tensor> matrices;
    for (const Axis& axis : *axes) {
        weights.push_back(weights_of(*form, axis));
        auto matrix = finite_tensor(info.type, {axis.from, axis.to}, weights.back().numbers);
        if (!matrix) return false;
        matrices.push_back(std::move(*matrix));
    }
    SamplingWriter writer(graph, node.output(0));
    std::string value = node.input(0);
    for (std::size_t i = 0; i < axes->size(); ++i)
        value = writer.multiply(value, (*axes)[i].axis, in.size(), matrices[i]);
    const float outside = node.float_or("extrapolation_value", 0);
    Node last = make_node("Identity", {value});
    if (const auto added = beside(*axes, weights, in.size(), outside, info.type))
        last = make_node("Add", {value, add_constant(graph, node.output(0) + "_outside", *added)});
    become(node, std::move(last), Node(node));
    for (Node& each : writer.nodes())
        graph.insert(at++, std::move(each));
    return true;
}

} // namespace

//  x [.., h, w]        x                              w_k, h_k: weights, a column a result
//     |                MatMul w_k
//  Resize      ==>     Transpose, MatMul h_k, Transpose
//     |                |                              (+ what stands outside of what is cropped)
//     y                y
bool write_out_resize(Graph& graph, std::int64_t opset, const std::function<bool(const Node&)>& wanted) {
    if (opset < 11) return false;
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at)
        if (graph.nodes[at]->is("Resize")) changed = write_out_sampling(graph, at, wanted) || changed;
    return changed;
}

} // namespace lathe
