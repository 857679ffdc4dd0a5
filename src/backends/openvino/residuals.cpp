#include "backends/openvino/residuals.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/fake_quantize.hpp>
#include <openvino/op/group_normalization.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/prelu.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/select.hpp>
#include <openvino/op/softmax.hpp>
#include <openvino/op/squeeze.hpp>
#include <openvino/op/unsqueeze.hpp>
#include <openvino/op/util/binary_elementwise_arithmetic.hpp>
#include <openvino/op/util/unary_elementwise_arithmetic.hpp>

namespace lathe::openvino {

namespace {

using Sources = std::unordered_set<const ov::Node*>;

bool is_by_number(const ov::Node& node) {
    return ov::is_type<ov::op::util::BinaryElementwiseArithmetic>(&node) ||
           ov::is_type<ov::op::util::UnaryElementwiseArithmetic>(&node) ||
           ov::is_type<ov::op::v0::FakeQuantize>(&node) || ov::is_type<ov::op::v0::Convert>(&node) ||
           ov::is_type<ov::op::v1::Select>(&node) || ov::is_type<ov::op::v0::PRelu>(&node);
}

/// Of other sizes, which may turn out to be the same.
bool is_other_form(const ov::Node& node) {
    return ov::is_type<ov::op::v1::Reshape>(&node) || ov::is_type<ov::op::v0::Squeeze>(&node) ||
           ov::is_type<ov::op::v0::Unsqueeze>(&node);
}

/// What a value is computed from number by number, itself with it.
void add_sources(const ov::Node& from, Sources& sources) {
    constexpr std::size_t most = 256;
    std::vector<const ov::Node*> open{&from};
    while (!open.empty() && sources.size() < most) {
        const ov::Node* node = open.back();
        open.pop_back();
        if (!is_by_number(*node) || !sources.insert(node).second) continue;
        for (std::size_t i = 0; i < node->get_input_size(); ++i)
            open.push_back(node->get_input_node_ptr(i));
    }
}

/// The product that a Softmax's scores come from, behind a scale and a mask.
const ov::Node* scores_of(const ov::Node& softmax) {
    const ov::Node* node = softmax.get_input_node_ptr(0);
    for (int steps = 0; steps < 8; ++steps) {
        if (ov::is_type<ov::op::v0::MatMul>(node)) return node;
        if (!is_by_number(*node)) return nullptr;
        const ov::Node* first = node->get_input_node_ptr(0);
        const bool other =
            node->get_input_size() > 1 && !is_by_number(*first) && !ov::is_type<ov::op::v0::MatMul>(first);
        node = other ? node->get_input_node_ptr(1) : first;
    }
    return nullptr;
}

/// Who reads a value, in this form or another.
struct Readers {
    std::vector<ov::Input<ov::Node>> by_number;
    std::size_t count = 0; ///< of all
};
void add_readers(const ov::Output<ov::Node>& value, Readers& readers, int steps = 4) {
    for (const ov::Input<ov::Node>& reader : value.get_target_inputs()) {
        if (is_other_form(*reader.get_node()) && reader.get_index() == 0 && steps > 0) {
            add_readers(reader.get_node()->output(0), readers, steps - 1);
            continue;
        }
        ++readers.count;
        if (is_by_number(*reader.get_node())) readers.by_number.push_back(reader);
    }
}

/// Whether a node computes number by number from more than one value.
bool joins(const ov::Node& node) {
    std::size_t values = 0;
    for (std::size_t i = 0; i < node.get_input_size(); ++i)
        values += reads_constant(node, i) ? 0 : 1;
    return values > 1 && !ov::is_type<ov::op::v0::FakeQuantize>(&node);
}

/// Whether one of the operators that read a value is also of one of the sources; or is of something else, and another
/// reads the value or the operator's result as well, or its operands have an order. What a kernel takes along, since
/// nothing else reads it, counts as the value.
bool meets(const ov::Output<ov::Node>& value, const Sources& sources, int steps = 16) {
    Readers readers;
    add_readers(value, readers);
    for (const ov::Input<ov::Node>& reader : readers.by_number) {
        ov::Node& node = *reader.get_node();
        const bool taken = readers.count == 1 && node.output(0).get_target_inputs().size() == 1;
        if (joins(node)) {
            const bool is_either_way = ov::is_type<ov::op::v1::Add>(&node) || ov::is_type<ov::op::v1::Multiply>(&node);
            const ov::Node* other = node.get_input_node_ptr(1 - std::min<std::size_t>(reader.get_index(), 1));
            if ((!taken || !is_either_way) && other != value.get_node()) return true;
            Sources others;
            add_sources(*other, others);
            if (std::ranges::any_of(others, [&](const ov::Node* each) { return sources.contains(each); })) return true;
        }
        if (taken && steps > 0 && meets(node.output(0), sources, steps - 1)) return true;
    }
    return false;
}

/// Puts Maximum(y, y) between y and its readers.
void set_apart_from_readers(const ov::Output<ov::Node>& value) {
    const auto readers = value.get_target_inputs();
    const auto same = same_value(value);
    for (ov::Input<ov::Node> reader : readers)
        if (!ov::is_type<ov::op::v0::Result>(reader.get_node())) reader.replace_source_output(same);
}

bool result_set_apart(const std::shared_ptr<ov::Node>& node) {
    const auto product = ov::as_type_ptr<ov::op::v0::MatMul>(node);
    if (product == nullptr) return false;
    const ov::Node* softmax = product->get_input_node_ptr(0);
    if (!ov::is_type<ov::op::v8::Softmax>(softmax) && !ov::is_type<ov::op::v1::Softmax>(softmax)) return false;
    const ov::Node* scores = scores_of(*softmax);
    if (scores == nullptr) return false;
    Sources sources;
    add_sources(*scores->get_input_node_ptr(0), sources);
    add_sources(*scores->get_input_node_ptr(1), sources);
    add_sources(*product->get_input_node_ptr(1), sources);
    if (!meets(product->output(0), sources)) return false;
    set_apart_from_readers(product->output(0));
    return true;
}

/// Whether a value is computed from another alone, number by number (as what Swish multiplies).
bool is_of(const ov::Node* value, const ov::Node* other, int steps = 4) {
    while (value != other && steps-- > 0 && is_by_number(*value) && !joins(*value))
        value = value->get_input_node_ptr(0);
    return value == other;
}

bool normalised_set_apart(const std::shared_ptr<ov::Node>& node) {
    if (!ov::is_type<ov::op::v12::GroupNormalization>(node)) return false;
    const auto joined = [&](const ov::Input<ov::Node>& reader) {
        const ov::OutputVector operands = reader.get_node()->input_values();
        return is_by_number(*reader.get_node()) && joins(*reader.get_node()) &&
               !std::ranges::all_of(operands, [&](const auto& each) { return is_of(each.get_node(), node.get()); });
    };
    if (std::ranges::none_of(node->output(0).get_target_inputs(), joined)) return false;
    set_apart_from_readers(node->output(0));
    return true;
}

} // namespace

void keep_residuals_apart(ov::Model& model) {
    change_nodes(model, [](const std::shared_ptr<ov::Node>& node) {
        return result_set_apart(node) || normalised_set_apart(node);
    });
}

} // namespace lathe::openvino
