#include "passes/zero_point_places.hpp"

#include <algorithm>
#include <cstdint>

#include "passes/linear_maps.hpp"

namespace lathe {
namespace {

bool is_depthwise(const Node& node, const Tensor& weights) {
    return weights.shape()[1] == 1 && weights.shape()[0] > 1 && node.int_or("group", 1) == weights.shape()[0];
}

} // namespace

ZeroPointPlaces::ZeroPointPlaces(const Graph& graph, const Uses& uses, const std::map<std::string, const Node*>& added)
    : graph_(graph), uses_(uses), added_(added) {
    for (const auto& node : graph.nodes)
        places_.emplace(node.get(), places_.size());
}

/// Constant weights, also behind a DequantizeLinear.
const Tensor* ZeroPointPlaces::weights_of(const Node& node) const {
    const Node* dequantise = uses_.producer(node.input(1));
    if (dequantise == nullptr) return graph_.constant(node.input(1));
    return dequantise->is("DequantizeLinear") ? graph_.constant(dequantise->input(0)) : nullptr;
}

bool ZeroPointPlaces::is_dequantised(const std::string& value) const {
    const Node* node = uses_.producer(value);
    return node != nullptr && node->is("DequantizeLinear") && graph_.constant(node->input(0)) == nullptr;
}

/// Of constant weights; convolutions over images.
bool ZeroPointPlaces::is_product(const Node& node) const {
    const Tensor* weights = weights_of(node);
    if (weights == nullptr) return false;
    if (node.is("Gemm")) return node.int_or("transA", 0) == 0;
    if (node.is("MatMul")) return weights->shape().size() == 2;
    return node.is("Conv") && weights->shape().size() == 4;
}

bool ZeroPointPlaces::multiplies_int8(const Node& node) const {
    return is_product(node) && is_dequantised(node.input(0)) && weights_of(node)->type() == DataType::int8;
}

/// The product that gives the value to this one reader.
const Node* ZeroPointPlaces::straight_from_product(const std::string& value) const {
    const Node* node = uses_.producer(value);
    return node != nullptr && uses_.use_count(value) == 1 && is_product(*node) ? node : nullptr;
}

bool ZeroPointPlaces::one_kernel_gives(const std::string& value) const {
    // What was put before a QuantizeLinear just now is not in `uses_`.
    const auto added = added_.find(value);
    const Node* last = added != added_.end() ? added->second : uses_.producer(value);
    if (last == nullptr || (added == added_.end() && uses_.use_count(value) != 1)) return false;
    const bool activates = last->is("Relu") || last->is("Clip");
    const std::string& sum = activates ? last->input(0) : value;
    if (straight_from_product(sum) != nullptr) return true;
    const Node* add = uses_.producer(sum);
    if (add == nullptr || !add->is("Add") || uses_.use_count(sum) != 1) return false;
    for (const std::size_t kept : {std::size_t{0}, std::size_t{1}}) {
        const Tensor* bias = graph_.constant(add->input(1 - kept));
        const Node* product = straight_from_product(add->input(kept));
        if (bias != nullptr && bias->shape().size() == 1 && product != nullptr && product->is("MatMul")) return true;
        if (adds_behind(*add, kept)) return true;
    }
    return false;
}

/// The Add is done by the kernel that computes its input `kept`; the other is a skip of the same sizes in int8 that
/// is computed by then.
bool ZeroPointPlaces::adds_behind(const Node& add, std::size_t kept) const {
    const std::string& own = add.input(kept);
    const std::string& skip = add.input(1 - kept);
    const Node* product = straight_from_product(own);
    if (product == nullptr || !is_dequantised(skip)) return false;
    const auto left = graph_.info(own), right = graph_.info(skip);
    if (!left || !right || !left->dims || left->dims != right->dims) return false;
    const Node* quantise = uses_.producer(uses_.producer(skip)->input(0));
    return quantise == nullptr || places_.at(quantise) < places_.at(product);
}

bool ZeroPointPlaces::takes_zero_point(const Node& node, const std::string& value) const {
    if (node.is("Add")) return adds_behind(node, node.input(0) == value ? 1 : 0);
    if (node.input(0) != value || !multiplies_int8(node)) return false;
    return !node.is("Conv") || is_depthwise(node, *weights_of(node)) || !passes::is_padded(node);
}

bool ZeroPointPlaces::all_take(const std::string& value) const {
    return !graph_.is_output(value) && std::ranges::all_of(uses_.consumers(value), [&](const Node* reader) {
        return std::ranges::count(reader->inputs, value) == 1 && takes_zero_point(*reader, value);
    });
}

} // namespace lathe
