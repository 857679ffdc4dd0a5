#include "backends/openvino/long_chains.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/divide.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/subtract.hpp>
#include <openvino/op/util/binary_elementwise_arithmetic.hpp>
#include <openvino/op/util/unary_elementwise_arithmetic.hpp>

#include "backends/openvino/choices.hpp"
#include "backends/openvino/masks.hpp"
#include "backends/openvino/mish.hpp"
#include "backends/openvino/normalised_scales.hpp"
#include "backends/openvino/padding.hpp"
#include "backends/openvino/perceptrons.hpp"
#include "backends/openvino/residuals.hpp"
#include "backends/openvino/row_factors.hpp"
#include "backends/openvino/shared_scales.hpp"
#include "backends/openvino/slopes.hpp"
#include "backends/openvino/tiles.hpp"
#include "backends/openvino/turns.hpp"

namespace lathe::openvino {

namespace {

using Constant = ov::op::v0::Constant;
using NodePtr = std::shared_ptr<ov::Node>;

/// Runs of fewer nodes are OpenVINO's to join, which it does in no time.
constexpr std::size_t long_run = 64;
/// Elementwise nodes in a row that OpenVINO may gather in one kernel: 400 take it 0.3 s, twice as many four times that.
constexpr std::size_t most_gathered = 400;
/// Readers of one constant, each compared with each other.
constexpr std::size_t most_readers = 64;
constexpr std::size_t small_constant = 4096;

std::shared_ptr<Constant> constant_at(const ov::Node& node, std::size_t input) {
    return ov::as_type_ptr<Constant>(node.get_input_node_shared_ptr(input));
}

/// y = scale * x + shift; each holds one number, or all that the broadcast constant has.
struct Linear {
    ov::Shape shape;
    std::vector<double> scale{1.0}, shift{0.0};
};

/// A node that computes `x op constant` in float32 and leaves x's shape as it is.
struct Step {
    NodePtr node;
    std::size_t data = 0; ///< which input is x
    std::shared_ptr<Constant> constant;
};

bool keeps_shape(const ov::PartialShape& x, const ov::Shape& constant) {
    if (x.rank().is_dynamic() || constant.size() > x.size()) return false;
    for (std::size_t i = 0; i < constant.size(); ++i) {
        const ov::Dimension& dim = x[x.size() - constant.size() + i];
        if (constant[i] != 1 && (dim.is_dynamic() || static_cast<std::size_t>(dim.get_length()) != constant[i]))
            return false;
    }
    return true;
}

std::optional<Step> linear_step(const NodePtr& node) {
    const bool commutes = ov::is_type<ov::op::v1::Add>(node) || ov::is_type<ov::op::v1::Multiply>(node);
    if (!commutes && !ov::is_type<ov::op::v1::Subtract>(node) && !ov::is_type<ov::op::v1::Divide>(node)) return {};
    if (node->get_output_element_type(0) != ov::element::f32) return {};
    Step step{node, 0, constant_at(*node, 1)};
    if (step.constant == nullptr && commutes) step = {node, 1, constant_at(*node, 0)};
    if (step.constant == nullptr) return {};
    const std::size_t count = ov::shape_size(step.constant->get_shape());
    if (count == 0 || count > small_constant) return {};
    if (!keeps_shape(node->get_input_partial_shape(step.data), step.constant->get_shape())) return {};
    return step;
}

double at(const std::vector<double>& values, std::size_t index) {
    return values.size() == 1 ? values[0] : values[index];
}

bool usable(double value) { return value == 0 || (std::abs(value) < 1e30 && std::abs(value) > 1e-30); }

/// What `before` and then `step` compute, or nothing where float32 would not hold it or shapes differ.
std::optional<Linear> then(const Linear& before, const Step& step) {
    const std::vector<float> values = step.constant->cast_vector<float>();
    if (values.size() > 1 && before.scale.size() > 1 && step.constant->get_shape() != before.shape) return {};
    Linear after;
    after.shape = values.size() >= before.scale.size() && values.size() > 1 ? step.constant->get_shape() : before.shape;
    const std::size_t count = std::max(values.size(), before.scale.size());
    after.scale.assign(count, 0);
    after.shift.assign(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
        const double c = values.size() == 1 ? values[0] : values[i];
        double scale = at(before.scale, i), shift = at(before.shift, i);
        if (ov::is_type<ov::op::v1::Add>(step.node)) shift += c;
        if (ov::is_type<ov::op::v1::Subtract>(step.node)) shift -= c;
        if (ov::is_type<ov::op::v1::Multiply>(step.node)) scale *= c, shift *= c;
        if (ov::is_type<ov::op::v1::Divide>(step.node)) scale /= c, shift /= c;
        // A product that leaves the range of floats on its way is not the product of what is left in the end.
        if (!usable(scale) || !usable(shift)) return {};
        after.scale[i] = scale;
        after.shift[i] = shift;
    }
    return after;
}

std::shared_ptr<Constant> constant_of(const Linear& linear, const std::vector<double>& values) {
    return std::make_shared<Constant>(ov::element::f32, linear.shape, std::vector<float>(values.begin(), values.end()));
}

/// Puts one Multiply and one Add in the place of steps that compute `linear` together.
void put(const Linear& linear, const Step& first, const Step& last) {
    ov::Output<ov::Node> value = first.node->input_value(first.data);
    if (std::ranges::any_of(linear.scale, [](double scale) { return scale != 1; }))
        value = std::make_shared<ov::op::v1::Multiply>(value, constant_of(linear, linear.scale));
    const auto whole = std::make_shared<ov::op::v1::Add>(value, constant_of(linear, linear.shift));
    whole->set_friendly_name(last.node->get_friendly_name());
    ov::replace_node(last.node, whole);
}

/// The steps in as few pieces as floats allow.
void join(const std::vector<Step>& run) {
    std::size_t begin = 0;
    while (begin < run.size()) {
        Linear linear;
        std::size_t end = begin;
        while (end < run.size()) {
            auto longer = then(linear, run[end]);
            if (!longer) break;
            linear = std::move(*longer);
            ++end;
        }
        if (end - begin > 2) put(linear, run[begin], run[end - 1]);
        begin = std::max(end, begin + 1);
    }
}

/// Runs of additions and multiplications by constants are joined, as OpenVINO does one by one, each time copying the
/// names of all nodes before (62 s before, 1 after).
void join_linear_runs(ov::Model& model) {
    std::vector<std::vector<Step>> runs;
    std::unordered_map<const ov::Node*, std::size_t> run_ending_in;
    for (const NodePtr& node : model.get_ordered_ops()) {
        auto step = linear_step(node);
        if (!step) continue;
        const ov::Output<ov::Node> data = node->input_value(step->data);
        const auto before = run_ending_in.find(data.get_node());
        std::size_t run = runs.size();
        if (before != run_ending_in.end() && data.get_target_inputs().size() == 1) {
            run = before->second;
        } else {
            runs.emplace_back();
        }
        runs[run].push_back(std::move(*step));
        run_ending_in[node.get()] = run;
    }
    for (const auto& run : runs) {
        if (run.size() >= long_run) join(run);
    }
}

/// Whether elementwise nodes follow each other for very long. OpenVINO is then not to gather them in kernels of its own
/// making, copying the kernel so far for each (over 240 s before, 6 after).
bool has_long_elementwise_run(const ov::Model& model) {
    std::unordered_map<const ov::Node*, std::size_t> length;
    for (const NodePtr& node : model.get_ordered_ops()) {
        if (ov::as_type_ptr<ov::op::util::UnaryElementwiseArithmetic>(node) == nullptr &&
            ov::as_type_ptr<ov::op::util::BinaryElementwiseArithmetic>(node) == nullptr)
            continue;
        std::size_t longest = 0;
        for (const auto& input : node->input_values()) {
            const auto before = length.find(input.get_node());
            if (before != length.end()) longest = std::max(longest, before->second);
        }
        if (longest >= most_gathered) return true;
        length.emplace(node.get(), longest + 1);
    }
    return false;
}

} // namespace

void copy_shared_constants(ov::Model& model) {
    for (const NodePtr& node : model.get_ordered_ops()) {
        const auto constant = ov::as_type_ptr<Constant>(node);
        if (constant == nullptr || constant->get_byte_size() > small_constant) continue;
        const auto readers = constant->output(0).get_target_inputs();
        if (readers.size() <= most_readers) continue;
        bool first = true;
        for (ov::Input<ov::Node> reader : readers) {
            if (!std::exchange(first, false)) reader.replace_source_output(std::make_shared<Constant>(*constant));
        }
    }
}

ov::CompiledModel compile_on_cpu(const std::shared_ptr<ov::Model>& model, ov::AnyMap properties) {
    join_linear_runs(*model);
    keep_chosen_results(*model);
    keep_tiles_plain(*model);
    keep_padding_apart(*model);
    keep_turns_apart(*model);
    keep_residuals_apart(*model);
    keep_shared_scales(*model);
    keep_slopes_apart(*model);
    keep_scales_of_normalised(*model);
    write_products_of_one_number(*model);
    keep_perceptrons_apart(*model);
    write_mish_of_rows(*model);
    keep_row_factors_apart(*model);
    const auto precision = properties.find(ov::hint::inference_precision.name());
    if (precision != properties.end() && precision->second.as<ov::element::Type>() != ov::element::f32)
        give_masks_to_heads(*model);
    if (has_long_elementwise_run(*model)) properties["SNIPPETS_MODE"] = "DISABLE";
    return core().compile_model(model, "CPU", properties);
}

} // namespace lathe::openvino
