#include "backends/openvino/residuals.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/maximum.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/result.hpp>
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
           ov::is_type<ov::op::util::UnaryElementwiseArithmetic>(&node);
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

/// Whether one of the operators that read a value is also of one of the sources; or is of something else, and another
/// reads the value as well, or its operands have an order.
bool meets(const ov::Output<ov::Node>& value, const Sources& sources) {
    Readers readers;
    add_readers(value, readers);
    for (const ov::Input<ov::Node>& reader : readers.by_number) {
        const ov::Node& node = *reader.get_node();
        if (node.get_input_size() < 2) continue;
        const ov::Node* other = node.get_input_node_ptr(1 - reader.get_index());
        const bool is_either_way = ov::is_type<ov::op::v1::Add>(&node) || ov::is_type<ov::op::v1::Multiply>(&node);
        if ((readers.count > 1 || !is_either_way) && other != value.get_node() &&
            !ov::is_type<ov::op::v0::Constant>(other))
            return true;
        Sources others;
        add_sources(*other, others);
        if (std::ranges::any_of(others, [&](const ov::Node* each) { return sources.contains(each); })) return true;
    }
    return false;
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
    const auto readers = product->output(0).get_target_inputs();
    const auto same = std::make_shared<ov::op::v1::Maximum>(product, product);
    for (ov::Input<ov::Node> reader : readers)
        if (!ov::is_type<ov::op::v0::Result>(reader.get_node())) reader.replace_source_output(same);
    return true;
}

} // namespace

void keep_residuals_apart(ov::Model& model) { change_nodes(model, result_set_apart); }

} // namespace lathe::openvino
