#include "backends/cuda/plan/computed_filters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A convolution as it is said, with the sizes of its operands.
struct Form {
    Shape x, filter, out;
    Spans spans;
    std::int64_t groups = 1, taps = 1;
    DataType type = DataType::undefined;
};

std::optional<Form> form_of(const Graph& graph, const Node& node) {
    const auto x = known_sizes(graph, node.input(0)), filter = known_sizes(graph, node.input(1)),
               out = known_sizes(graph, node.output(0));
    if (!x || !filter || !out || x->size() < 3 || filter->size() != x->size() || out->size() != x->size())
        return std::nullopt;
    auto spans = spans_of(node, *x, Sizes(filter->begin() + 2, filter->end()));
    if (!spans) return std::nullopt;
    Form form{*x, *filter, *out, std::move(*spans), node.int_or("group", 1), 1, type_of(graph, node.input(0))};
    form.taps = elements_between(form.spans.kernel, 0, form.spans.kernel.size());
    if (form.groups < 1 || form.x[1] % form.groups != 0 || form.out[1] % form.groups != 0 ||
        form.type == DataType::undefined ||
        !std::equal(form.spans.kernel.begin(), form.spans.kernel.end(), form.filter.begin() + 2))
        return std::nullopt;
    return form;
}

/// x as [N groups, C/groups * taps, results].
std::string patches(NodesBefore& to, const Form& form, const std::string& x) {
    const std::int64_t images = form.x[0] * form.groups, channels = form.x[1] / form.groups;
    const std::int64_t pixels = elements_between(form.x, 2, form.x.size()),
                       results = elements_between(form.out, 2, form.out.size());
    const Sizes places = places_of_windows(form.spans, form.x, form.out);
    std::string value = to.reshaped(x, {images, channels, pixels});
    bool as_they_lie = form.taps == 1 && results == pixels;
    for (std::size_t i = 0; i < places.size() && as_they_lie; ++i)
        as_they_lie = places[i] == static_cast<std::int64_t>(i);
    if (as_they_lie) return value;
    if (std::find(places.begin(), places.end(), pixels) != places.end()) {
        // One pixel of zeros behind the others is the border.
        const std::vector<float> zeros(static_cast<std::size_t>(images * channels), 0.0F);
        value = to.joined({value, to.constant("border", *finite_tensor(form.type, {images, channels, 1}, zeros))}, 2);
    }
    const std::string all = to.gathered(value, to.integers(places, {form.taps, results}), 2);
    return to.reshaped(all, {images, channels * form.taps, results});
}

/// left [groups, m, k] times right [N groups, k, n].
std::string multiplied(NodesBefore& to, const Form& form, const std::string& left, const std::string& right,
                       const Sizes& m_k_n) {
    const std::int64_t m = m_k_n[0], k = m_k_n[1], n = m_k_n[2], images = form.x[0];
    if (images == 1) return to.product(left, right);
    if (form.groups == 1) return to.product(to.reshaped(left, {m, k}), right);
    const std::string by_group = to.reshaped(right, {images, form.groups, k, n});
    return to.product(left, by_group);
}

/// The node becomes a Reshape to the result's sizes, or the sum of that and the bias.
void finish(NodesBefore& to, Node& node, const Form& form, const std::string& value) {
    const std::string bias = node.input(2);
    const Node origin = node;
    Node shaped = to.reshape(value, form.out);
    if (bias.empty()) return become(node, std::move(shaped), origin);
    Sizes by_channel(form.out.size() - 1, 1);
    by_channel[0] = form.out[1];
    const std::string sum = to.add(std::move(shaped), "unbiased");
    become(node, make_node("Add", {sum, to.reshaped(bias, by_channel)}), origin);
}

//  x          filter [M, C/g, taps]         x                    filter
//   \          /                            |                      |
//    Conv, g groups              ==>        patches [N g, K, L]   Reshape [g, M/g, K]
//                                            \                    /
//                                             MatMul -> Reshape, K = C/g * taps
bool become_product(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto form = form_of(graph, node);
    if (!form || form->filter[1] * form->groups != form->x[1] || form->filter[0] != form->out[1]) return false;
    const std::int64_t m = form->out[1] / form->groups, k = form->filter[1] * form->taps,
                       n = elements_between(form->out, 2, form->out.size());
    if (form->taps * n > most_numbers) return false;
    NodesBefore to(graph, at);
    const std::string left = to.reshaped(node.input(1), {form->groups, m, k});
    const std::string right = patches(to, *form, node.input(0));
    finish(to, node, *form, multiplied(to, *form, left, right, {m, k, n}));
    return true;
}

//  x          filter [C, M/g, taps]         x                   filter
//   \          /                            |                      |
//    ConvTranspose, g groups     ==>       Reshape [N g, C/g, L]  Reshape, Transpose [g, M/g * taps, C/g]
//                                            \                    /
//                                             MatMul -> Reshape -> ConvTranspose of M groups with ones
// as Col2Im is.
bool become_transposed_product(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto form = form_of(graph, node);
    if (!form || form->filter[0] != form->x[1] || form->filter[1] * form->groups != form->out[1]) return false;
    const std::int64_t channels = form->x[1] / form->groups, rows = form->filter[1] * form->taps;
    const std::int64_t pixels = elements_between(form->x, 2, form->x.size()), all = form->out[1] * form->taps;
    std::vector<float> ones(static_cast<std::size_t>(all * form->taps));
    for (std::size_t i = 0; i < static_cast<std::size_t>(all); ++i)
        ones[i * static_cast<std::size_t>(form->taps) + i % static_cast<std::size_t>(form->taps)] = 1;
    Shape of_ones{all, 1};
    of_ones.insert(of_ones.end(), form->spans.kernel.begin(), form->spans.kernel.end());
    const auto weights = finite_tensor(form->type, of_ones, ones);
    if (!weights) return false;
    NodesBefore to(graph, at);
    const std::string left = to.transposed(to.reshaped(node.input(1), {form->groups, channels, rows}), {0, 2, 1});
    const std::string right = to.reshaped(node.input(0), {form->x[0] * form->groups, channels, pixels});
    const std::string columns = multiplied(to, *form, left, right, {rows, channels, pixels});
    Sizes image{form->x[0], all};
    image.insert(image.end(), form->x.begin() + 2, form->x.end());
    Node sum = make_node("ConvTranspose", {to.reshaped(columns, image), to.constant("places", *weights)});
    sum.attributes = node.attributes;
    sum.set("group", form->out[1]);
    const Sizes kernel = form->spans.kernel;
    sum.set("kernel_shape", kernel);
    finish(to, node, *form, to.add(std::move(sum), "summed"));
    return true;
}

//  Conv(x, filter, bias)   ==>   Conv(x, filter) -> Add bias
bool add_bias_behind(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto out = known_sizes(graph, node.output(0));
    if (!out) return false;
    Sizes by_channel(out->size() - 1, 1);
    by_channel[0] = (*out)[1];
    const std::string bias = node.input(2);
    const Node origin = node;
    NodesBefore to(graph, at);
    Node bare = node;
    bare.inputs.resize(2);
    const std::string sum = to.add(std::move(bare), "unbiased");
    become(node, make_node("Add", {sum, to.reshaped(bias, by_channel)}), origin);
    return true;
}

} // namespace

bool write_out_computed_filters(Graph& graph, std::size_t inputs) {
    std::set<std::string> weights;
    for (std::size_t i = inputs; i < graph.inputs.size(); ++i)
        weights.insert(graph.inputs[i].name);
    const auto is_constant = [&](const std::string& value) {
        return value.empty() || graph.constant(value) != nullptr || weights.contains(value);
    };
    // Filters may be quantised; that is unrolled only once.
    std::set<std::string> dequantised;
    for (const auto& node : graph.nodes) {
        if ((node->is("DequantizeLinear") || node->is("QuantizeLinear")) &&
            (is_constant(node->input(0)) || dequantised.contains(node->input(0))))
            dequantised.insert(node->output(0));
    }
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const Node& node = *graph.nodes[at];
        const bool transposed = node.is("ConvTranspose");
        if (!node.is("Conv") && !transposed) continue;
        const bool computed = !is_constant(node.input(1)) && !dequantised.contains(node.input(1));
        if (computed)
            changed = (transposed ? become_transposed_product(graph, at) : become_product(graph, at)) || changed;
        else if (!is_constant(node.input(2)) && !dequantised.contains(node.input(2)))
            changed = add_bias_behind(graph, at) || changed;
    }
    return changed;
}

} // namespace lathe::cuda
