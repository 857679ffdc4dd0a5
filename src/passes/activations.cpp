#include <algorithm>
#include <cmath>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

/// min(max(x, low), high); infinite where there is no bound.
struct Bounds {
    float low = -INFINITY;
    float high = INFINITY;
};

/// A bound given as a constant of one element; `otherwise` if omitted; nothing if it is not constant.
std::optional<float> bound(const Site& site, const Node& node, const char* attribute, std::size_t index,
                           float otherwise) {
    if (site.context.opset < 11) return node.float_or(attribute, otherwise);
    if (node.input(index).empty()) return otherwise;
    const Tensor* tensor = site.graph.constant(node.input(index));
    return tensor == nullptr ? std::nullopt : uniform_value(*tensor);
}

/// Relu and Clip as bounds. Clip with its bounds the wrong way round is left alone.
std::optional<Bounds> bounds_of(const Site& site, const Node& node) {
    if (node.is("Relu")) return Bounds{0, INFINITY};
    if (!node.is("Clip")) return std::nullopt;
    const auto low = bound(site, node, "min", 1, -INFINITY);
    const auto high = bound(site, node, "max", 2, INFINITY);
    if (!low || !high || !(*low <= *high)) return std::nullopt;
    return Bounds{*low, *high};
}

Bounds then(const Bounds& first, const Bounds& second) {
    return {std::clamp(first.low, second.low, second.high), std::clamp(first.high, second.low, second.high)};
}

/// The type of what the site computes, if it is one that Relu and Clip are merged for.
DataType floating_type(const Site& site, const std::string& value) {
    const DataType type = type_of(site.graph, value);
    return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16 ? type
                                                                                                : DataType::undefined;
}

/// The root becomes the shortest operator that keeps `x` within `bounds`.
bool become_clip(const Site& site, const std::string& x, const Bounds& bounds) {
    const DataType type = floating_type(site, x);
    if (type == DataType::undefined) return false;
    if (bounds.low == 0 && bounds.high == INFINITY) {
        become(site.root, make_node("Relu", {x}), site.root);
        return true;
    }
    if (site.context.opset < 6) return false;
    Node clip = make_node("Clip", {x});
    if (site.context.opset < 11) {
        if (type != DataType::float32) return false;
        if (bounds.low != -INFINITY) clip.set("min", bounds.low);
        if (bounds.high != INFINITY) clip.set("max", bounds.high);
    } else {
        const std::string low = bounds.low == -INFINITY ? "" : add_scalar(site.graph, "clip_min", type, bounds.low);
        const std::string high = bounds.high == INFINITY ? "" : add_scalar(site.graph, "clip_max", type, bounds.high);
        if (!low.empty() || !high.empty()) clip.inputs.push_back(low);
        if (!high.empty()) clip.inputs.push_back(high);
    }
    become(site.root, std::move(clip), site.root);
    return true;
}

bool merge_two(const Site& site) {
    const Node& inner = site.match.node("inner");
    const auto first = bounds_of(site, inner);
    const auto second = bounds_of(site, site.root);
    return first && second && become_clip(site, inner.input(0), then(*first, *second));
}

bool relu_from_clip(const Site& site) {
    const auto bounds = bounds_of(site, site.root);
    return bounds && bounds->low == 0 && bounds->high == INFINITY && become_clip(site, site.root.input(0), *bounds);
}

bool has_two_inputs(const Node& node) { return node.inputs.size() == 2; }

/// Whether Min or Max with this constant is a bound on every element and nothing else.
std::optional<float> plain_bound(const Site& site, const std::string& x, const std::string& capture) {
    const Tensor& constant = site.match.constant(capture);
    const auto value = uniform_value(constant);
    if (!value || std::isnan(*value) || site.context.opset < 8) return std::nullopt;
    return keeps_shape(site.graph, x, constant) ? value : std::nullopt;
}

bool clip_from_min_of_max(const Site& site) {
    const std::string& x = site.match.value("x");
    const auto low = plain_bound(site, x, "low");
    const auto high = plain_bound(site, x, "high");
    return low && high && *low <= *high && become_clip(site, x, {*low, *high});
}

bool clip_from_bound_of_clip(const Site& site) {
    const Node& inner = site.match.node("inner");
    const bool is_upper = site.match.constants.contains("high");
    const auto first = bounds_of(site, inner);
    const auto value = plain_bound(site, inner.output(0), is_upper ? "high" : "low");
    if (!first || !value) return false;
    const Bounds second = is_upper ? Bounds{-INFINITY, *value} : Bounds{*value, INFINITY};
    return become_clip(site, inner.input(0), then(*first, second));
}

bool relu_from_max(const Site& site) {
    const std::string& x = site.match.value("x");
    return plain_bound(site, x, "low") == 0.0F && become_clip(site, x, {0, INFINITY});
}

/// HardSigmoid of `x`, if the site is Clip(x + 3, 0, 6) by 6 and what else is around it.
std::optional<Node> hard_sigmoid_of(const Site& site) {
    const Node& clip = site.match.node("clip");
    const auto bounds = bounds_of(site, clip);
    const std::string& x = site.match.value("x");
    if (!bounds || bounds->low != 0 || bounds->high != 6 || floating_type(site, x) == DataType::undefined)
        return std::nullopt;
    const bool plain = keeps_shape(site.graph, x, site.match.constant("three")) &&
                       keeps_shape(site.graph, x, site.match.constant("six"));
    if (!plain || site.context.opset < 7) return std::nullopt;
    Node node = make_node("HardSigmoid", {x});
    node.set("alpha", 1.0F / 6.0F);
    node.set("beta", 0.5F);
    return node;
}

bool hard_sigmoid(const Site& site) {
    auto node = hard_sigmoid_of(site);
    if (!node) return false;
    become(site.root, *std::move(node), site.root);
    return true;
}

bool hard_swish(const Site& site) {
    if (site.context.opset < 14) return false;
    become(site.root, make_node("HardSwish", {site.match.value("x")}), site.root);
    return true;
}

/// x * Clip(x + 3, 0, 6) by 6, as Paddle writes it: x * HardSigmoid(x), which is HardSwish where ONNX has that.
bool hard_swish_divided_last(const Site& site) {
    auto gate = hard_sigmoid_of(site);
    if (!gate) return false;
    if (hard_swish(site)) return true;
    const std::string& x = site.match.value("x");
    gate->outputs = {site.graph.unique_name("hard_sigmoid")};
    const std::string name = gate->outputs[0];
    insert_before(site, *std::move(gate), site.graph.info(x));
    become(site.root, make_node("Mul", {x, name}), site.root);
    return true;
}

/// The root becomes x where that is positive, else x times each `slope` (of `x`'s shape or one that broadcasts to it).
bool become_leaky(const Site& site, const std::string& x, const Tensor& slope, float factor) {
    const DataType type = floating_type(site, x);
    if (type == DataType::undefined || site.context.opset < 7 || !keeps_shape(site.graph, x, slope)) return false;
    if (const auto one = uniform_value(slope)) {
        if (!std::isfinite(*one)) return false;
        Node leaky = make_node("LeakyRelu", {x});
        leaky.set("alpha", *one * factor);
        become(site.root, std::move(leaky), site.root);
        return true;
    }
    std::vector<float> values = slope.to_floats();
    for (float& value : values)
        value *= factor;
    const auto scaled = finite_tensor(type, slope.shape(), values);
    if (!scaled) return false;
    become(site.root, make_node("PRelu", {x, add_constant(site.graph, "slope", *scaled)}), site.root);
    return true;
}

/// Max(x, slope * x): LeakyRelu, if slopes are from 0 to 1.
bool leaky_from_max(const Site& site) {
    const Tensor& slope = site.match.constant("slope");
    if (floating_type(site, site.match.value("x")) == DataType::undefined) return false;
    const std::vector<float> values = slope.to_floats();
    const bool below_one = std::ranges::all_of(values, [](float value) { return value >= 0 && value <= 1; });
    return below_one && become_leaky(site, site.match.value("x"), slope, 1);
}

/// Relu(x) + slope * Relu(-x), as Keras writes PReLU.
bool leaky_from_halves(const Site& site) {
    return become_leaky(site, site.match.value("x"), site.match.constant("slope"), -1);
}

bool is_sixth(const Tensor& tensor) {
    const auto value = uniform_value(tensor);
    return value && std::abs(*value * 6 - 1) < 1e-6F;
}

auto equals(float number) {
    return [number](const Tensor& tensor) { return uniform_value(tensor) == number; };
}

} // namespace

//  Relu|Clip(a, b)              Max(low)                           Max(0)
//  |                 ==> Clip   |           ==> Clip(low, high)    |       ==> Relu
//  Relu|Clip(c, d)              Min(high)                          y
//  |                            |
//  y                            y
//
// Clip(0, infinity) is Relu; Clip(x + 3, 0, 6) / 6 is HardSigmoid; x * HardSigmoid(x) is HardSwish, also with the six
// outside; Max(x, slope * x) and Relu(x) + slope * Relu(-x) are LeakyRelu or PRelu. A merged operator is one that every
// backend fuses into the layer before it.
Result<bool> merge_activations(Graph& graph, PassContext& context) {
    const auto any = [] { return Pattern::any("x"); };
    const auto minimum = [](Pattern inner) {
        return Pattern::op("Min", {std::move(inner), Pattern::constant("high")}).any_order().where(has_two_inputs);
    };
    const auto maximum = [](Pattern inner) {
        return Pattern::op("Max", {std::move(inner), Pattern::constant("low")}).any_order().where(has_two_inputs);
    };
    const auto bounded = [] { return Pattern::op("Relu|Clip", {Pattern::any("x")}, "inner"); };
    const auto six_wide = [&] {
        return Pattern::op("Clip", {Pattern::op("Add", {any(), Pattern::constant("three", equals(3))}).any_order()},
                           "clip");
    };
    const auto gated = [&] { return Pattern::op("Mul", {any(), six_wide()}).any_order(); };
    const auto by_six = [](Pattern inner) {
        return Pattern::op("Div", {std::move(inner), Pattern::constant("six", equals(6))});
    };
    const auto times_sixth = [](Pattern inner) {
        return Pattern::op("Mul", {std::move(inner), Pattern::constant("six", is_sixth)}).any_order();
    };
    const auto scaled = [](Pattern inner) {
        return Pattern::op("Mul", {std::move(inner), Pattern::constant("slope")}).any_order();
    };
    static const std::vector<Rule> rules{
        {Pattern::op("Relu|Clip", {bounded()}), merge_two},
        {Pattern::op("Clip", {any()}), relu_from_clip},
        {minimum(maximum(any())), clip_from_min_of_max},
        {maximum(minimum(any())), clip_from_min_of_max},
        {minimum(bounded()), clip_from_bound_of_clip},
        {maximum(bounded()), clip_from_bound_of_clip},
        {maximum(any()), relu_from_max},
        {by_six(six_wide()), hard_sigmoid},
        {times_sixth(six_wide()), hard_sigmoid},
        {by_six(gated()), hard_swish_divided_last},
        {times_sixth(gated()), hard_swish_divided_last},
        {Pattern::op("Max", {any(), scaled(any())}).any_order().where(has_two_inputs), leaky_from_max},
        {Pattern::op("Add", {Pattern::op("Relu", {any()}), scaled(Pattern::op("Relu", {Pattern::op("Neg", {any()})}))})
             .any_order(),
         leaky_from_halves},
        {Pattern::op("Mul", {any(), Pattern::op("HardSigmoid", {any()}).where(gates_hard_swish)}).any_order(),
         hard_swish},
    };
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
