#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool near(std::optional<float> value, double expected) {
    return value && std::abs(static_cast<double>(*value) - expected) <= 1e-3 * std::abs(expected);
}

/// The other operand of a node with two inputs, "" if neither is `value` (or both are).
std::string other(const Node& node, const std::string& value) {
    if (node.inputs.size() != 2) return "";
    if (node.inputs[0] == value && node.inputs[1] != value) return node.inputs[1];
    if (node.inputs[1] == value && node.inputs[0] != value) return node.inputs[0];
    return "";
}

/// One node that is an activation by itself.
std::optional<ActivationMatch> single(const Lowering& lowering, Node& node) {
    ActivationMatch match;
    match.nodes = {&node};
    match.end = node.output(0);
    if (node.is("Relu")) {
        match.act = Activation::relu;
    } else if (node.is("Clip")) {
        const auto bound = [&](std::size_t index, const char* attribute, float otherwise) -> std::optional<float> {
            if (lowering.opset() < 11) return node.float_or(attribute, otherwise);
            if (node.input(index).empty()) return otherwise;
            return lowering.scalar(node.input(index));
        };
        const auto low = bound(1, "min", -infinity);
        const auto high = bound(2, "max", infinity);
        if (!low || !high) return std::nullopt;
        match.act = *low == 0 && *high == infinity ? Activation::relu : Activation::clip;
        match.low = *low;
        match.high = *high;
        if (match.act == Activation::relu) match.low = match.high = 0;
    } else if (node.is("LeakyRelu")) {
        match.act = Activation::leaky_relu;
        match.alpha = node.float_or("alpha", 0.01F);
    } else if (node.is("Sigmoid")) {
        match.act = Activation::sigmoid;
    } else if (node.is("Tanh")) {
        match.act = Activation::tanh;
    } else if (node.is("HardSigmoid")) {
        match.act = Activation::hard_sigmoid;
        match.alpha = node.float_or("alpha", 0.2F);
        match.high = node.float_or("beta", 0.5F);
    } else if (node.is("HardSwish")) {
        match.act = Activation::hard_swish;
    } else if (node.is("Gelu")) {
        match.act = node.string_or("approximate", "none") == "tanh" ? Activation::gelu_tanh : Activation::gelu_erf;
    } else if (node.is("Swish") && node.float_or("alpha", 1) == 1) {
        match.act = Activation::silu;
    } else {
        return std::nullopt;
    }
    return match;
}

/// x * Sigmoid(x), x * HardSigmoid(x).
std::optional<ActivationMatch> gated(const Lowering& lowering, const std::string& x, Node& gate, Node& product) {
    if (!product.is("Mul") || other(product, x) != gate.output(0) || lowering.only_reader(gate.output(0)) != &product) {
        return std::nullopt;
    }
    ActivationMatch match;
    match.nodes = {&gate, &product};
    match.end = product.output(0);
    if (gate.is("Sigmoid")) {
        match.act = Activation::silu;
        return match;
    }
    if (gate.is("HardSigmoid") && near(gate.float_or("alpha", 0.2F), 1.0 / 6) &&
        near(gate.float_or("beta", 0.5F), 0.5)) {
        match.act = Activation::hard_swish;
        return match;
    }
    return std::nullopt;
}

/// Follows `t`, which is 1 + f(x): x*t*0.5 in any order.
std::optional<ActivationMatch> half_of_product(const Lowering& lowering, const std::string& x, const std::string& t,
                                               Node& product, ActivationMatch match) {
    // x * t, then a half
    if (product.is("Mul") && other(product, x) == t && lowering.only_reader(t) == &product) {
        match.nodes.push_back(&product);
        Node* half = lowering.only_reader(product.output(0));
        if (half == nullptr) return std::nullopt;
        const bool multiplied = half->is("Mul") && near(lowering.scalar(other(*half, product.output(0))), 0.5);
        const bool divided =
            half->is("Div") && half->input(0) == product.output(0) && near(lowering.scalar(half->input(1)), 2);
        if (!multiplied && !divided) return std::nullopt;
        match.nodes.push_back(half);
        match.end = half->output(0);
        return match;
    }
    Node* reader = lowering.only_reader(t);
    if (reader == nullptr || !reader->is("Mul")) return std::nullopt;
    // (0.5 * x) * t
    if (product.is("Mul") && near(lowering.scalar(other(product, x)), 0.5) &&
        lowering.only_reader(product.output(0)) == reader && other(*reader, t) == product.output(0)) {
        match.nodes.push_back(&product);
        match.nodes.push_back(reader);
        match.end = reader->output(0);
        return match;
    }
    // x * (0.5 * t)
    if (near(lowering.scalar(other(*reader, t)), 0.5) && product.is("Mul") && other(product, x) == reader->output(0) &&
        lowering.only_reader(reader->output(0)) == &product) {
        match.nodes.push_back(reader);
        match.nodes.push_back(&product);
        match.end = product.output(0);
        return match;
    }
    return std::nullopt;
}

/// Erf(x / sqrt 2) + 1, then half_of_product.
std::optional<ActivationMatch> gelu_erf(const Lowering& lowering, const std::string& x, Node& scaled, Node& product) {
    const bool divided =
        scaled.is("Div") && scaled.input(0) == x && near(lowering.scalar(scaled.input(1)), std::sqrt(2.0));
    const bool multiplied = scaled.is("Mul") && near(lowering.scalar(other(scaled, x)), std::sqrt(0.5));
    if (!divided && !multiplied) return std::nullopt;
    Node* erf = lowering.only_reader(scaled.output(0));
    if (erf == nullptr || !erf->is("Erf")) return std::nullopt;
    Node* plus = lowering.only_reader(erf->output(0));
    if (plus == nullptr || !plus->is("Add") || !near(lowering.scalar(other(*plus, erf->output(0))), 1)) {
        return std::nullopt;
    }
    ActivationMatch match;
    match.act = Activation::gelu_erf;
    match.nodes = {&scaled, erf, plus};
    return half_of_product(lowering, x, plus->output(0), product, std::move(match));
}

/// Tanh(sqrt(2/pi) * (x + 0.044715 * x^3)) + 1, then half_of_product.
std::optional<ActivationMatch> gelu_tanh(const Lowering& lowering, const std::string& x, Node& cube, Node& sum,
                                         Node& product) {
    if (!cube.is("Pow") || cube.input(0) != x || !near(lowering.scalar(cube.input(1)), 3)) return std::nullopt;
    Node* small = lowering.only_reader(cube.output(0));
    if (small == nullptr || !small->is("Mul") || !near(lowering.scalar(other(*small, cube.output(0))), 0.044715)) {
        return std::nullopt;
    }
    if (!sum.is("Add") || other(sum, x) != small->output(0) || lowering.only_reader(small->output(0)) != &sum) {
        return std::nullopt;
    }
    Node* scaled = lowering.only_reader(sum.output(0));
    if (scaled == nullptr || !scaled->is("Mul") ||
        !near(lowering.scalar(other(*scaled, sum.output(0))), 0.7978845608)) {
        return std::nullopt;
    }
    Node* tanh = lowering.only_reader(scaled->output(0));
    if (tanh == nullptr || !tanh->is("Tanh")) return std::nullopt;
    Node* plus = lowering.only_reader(tanh->output(0));
    if (plus == nullptr || !plus->is("Add") || !near(lowering.scalar(other(*plus, tanh->output(0))), 1)) {
        return std::nullopt;
    }
    ActivationMatch match;
    match.act = Activation::gelu_tanh;
    match.nodes = {&cube, small, &sum, scaled, tanh, plus};
    return half_of_product(lowering, x, plus->output(0), product, std::move(match));
}

} // namespace

std::optional<ActivationMatch> Lowering::match_activation(const std::string& value) const {
    if (model_.graph.is_output(value)) return std::nullopt;
    const std::vector<Node*>& readers = uses_->consumers(value);
    for (const Node* reader : readers) {
        if (is_done(reader)) return std::nullopt;
    }
    if (readers.size() == 1) return single(*this, *readers[0]);
    if (readers.size() == 2) {
        for (std::size_t first = 0; first < 2; ++first) {
            Node& a = *readers[first];
            Node& b = *readers[1 - first];
            if (auto match = gated(*this, value, a, b)) return match;
            if (auto match = gelu_erf(*this, value, a, b)) return match;
        }
    }
    if (readers.size() == 3) {
        std::array<std::size_t, 3> order{0, 1, 2};
        do {
            auto match = gelu_tanh(*this, value, *readers[order[0]], *readers[order[1]], *readers[order[2]]);
            if (match) return match;
        } while (std::next_permutation(order.begin(), order.end()));
    }
    return std::nullopt;
}

} // namespace lathe::cuda
