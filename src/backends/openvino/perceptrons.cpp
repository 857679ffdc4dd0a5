#include "backends/openvino/perceptrons.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/divide.hpp>
#include <openvino/op/fake_quantize.hpp>
#include <openvino/op/identity.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/negative.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/subtract.hpp>

#include "backends/openvino/shared_scales.hpp"

namespace lathe::openvino {

namespace {

bool moves_rows(const ov::Node& node) {
    return is_one_of<ov::op::v1::Reshape, ov::op::v0::Convert, ov::op::v16::Identity>(node);
}

bool is_linear(const ov::Node& node) {
    using namespace ov::op;
    if (ov::is_type<v0::Negative>(&node)) return true;
    return is_one_of<v1::Add, v1::Subtract, v1::Multiply, v1::Divide>(node) &&
           (reads_constant(node, 0) || reads_constant(node, 1));
}

/// Whether a bias is added, of numbers that are not all the same.
bool adds_bias(const ov::Node& node) {
    if (!is_one_of<ov::op::v1::Add, ov::op::v1::Subtract>(node)) return false;
    const auto bias = ov::as_type_ptr<ov::op::v0::Constant>(node.get_input_node_shared_ptr(1));
    if (bias == nullptr) return false;
    const auto numbers = bias->cast_vector<float>();
    return std::ranges::any_of(numbers, [&](float number) { return number != numbers.front(); });
}

/// The only input that is computed; nothing where several are.
std::optional<std::size_t> computed_input(const ov::Node& node) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < node.get_input_size(); ++i) {
        if (reads_constant(node, i)) continue;
        if (found) return std::nullopt;
        found = i;
    }
    return found;
}

bool multiplies_bytes(const ov::Node& node) {
    return ov::is_type<ov::op::v0::MatMul>(&node) && node.get_output_partial_shape(0).rank() == 2 &&
           are_bytes(*node.get_input_node_ptr(1));
}

/// Whether what is quantised comes of a product in one of the forms that go wrong.
bool ends_in_factors(const ov::Node& quantise) {
    constexpr int most_steps = 32;
    bool linear = false, biases_alone = true, any = false;
    const ov::Node* node = quantise.get_input_node_ptr(0);
    for (int steps = 0; steps < most_steps; ++steps) {
        if (multiplies_bytes(*node)) return !any || (linear && !biases_alone);
        const auto before = computed_input(*node);
        if (!before) return false;
        if (!moves_rows(*node)) {
            const bool factor = is_linear(*node);
            if (!any && !factor) return false; // an activation
            any = true;
            linear = linear || factor;
            biases_alone = biases_alone && adds_bias(*node);
        }
        node = node->get_input_node_ptr(*before);
    }
    return false;
}

bool reaches_product(const ov::Node& quantise) {
    using namespace ov::op;
    constexpr std::size_t most_nodes = 64;
    std::set<const ov::Node*> seen{&quantise};
    std::vector<const ov::Node*> open{&quantise};
    while (!open.empty() && seen.size() < most_nodes) {
        const ov::Node* node = open.back();
        open.pop_back();
        for (const auto& output : node->outputs()) {
            for (const auto& reader : output.get_target_inputs()) {
                const ov::Node* next = reader.get_node();
                if (ov::is_type<v0::MatMul>(next)) return true;
                const bool passes = moves_rows(*next) || is_one_of<v1::Subtract, v1::Multiply, v0::FakeQuantize>(*next);
                if (passes && seen.insert(next).second) open.push_back(next);
            }
        }
    }
    return !open.empty();
}

bool quantised_apart(const std::shared_ptr<ov::Node>& node) {
    if (!ov::is_type<ov::op::v0::FakeQuantize>(node) || !ends_in_factors(*node) || !reaches_product(*node))
        return false;
    set_input_apart(*node, 0);
    return true;
}

bool multiplied_by_one_number(const std::shared_ptr<ov::Node>& node) {
    const auto product = ov::as_type_ptr<ov::op::v0::MatMul>(node);
    if (product == nullptr || product->get_transpose_a()) return false;
    const auto weights = ov::as_type_ptr<ov::op::v0::Constant>(product->get_input_node_shared_ptr(1));
    const ov::PartialShape rows = product->get_input_partial_shape(0);
    if (weights == nullptr || weights->get_shape() != ov::Shape{1, 1} || rows.rank().is_dynamic() || rows.size() < 2 ||
        rows[rows.size() - 1] != 1)
        return false;
    const auto multiplied = std::make_shared<ov::op::v1::Multiply>(product->input_value(0), weights);
    multiplied->set_friendly_name(product->get_friendly_name());
    ov::replace_node(product, multiplied);
    return true;
}

} // namespace

void write_products_of_one_number(ov::Model& model) { change_nodes(model, multiplied_by_one_number); }

void keep_perceptrons_apart(ov::Model& model) { change_nodes(model, quantised_apart); }

} // namespace lathe::openvino
