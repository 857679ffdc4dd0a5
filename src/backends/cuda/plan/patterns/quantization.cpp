#include <algorithm>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"

namespace lathe::cuda {
namespace {

constexpr const char* cure = "quantise the model with `lathe quantize --target cuda`";

/// The int8 zero point, if it is constant and one number however often.
std::optional<std::int32_t> one_zero_point(const Lowering& lowering, const std::string& zero_point) {
    if (zero_point.empty()) return std::nullopt; // uint8 by definition
    const auto found = lowering.constant(zero_point);
    if (!found || found->type != DataType::int8 || found->tensor == nullptr) return std::nullopt;
    const auto values = found->tensor->to_int64s();
    if (values.empty()) return 0;
    if (std::any_of(values.begin(), values.end(), [&](std::int64_t n) { return n != values[0]; })) return std::nullopt;
    return static_cast<std::int32_t>(values[0]);
}

bool all_zero(const Lowering& lowering, const std::string& zero_point) {
    return one_zero_point(lowering, zero_point) == 0;
}

bool same_grid(const Value& value, const Grid& grid) {
    return value.scale == grid.scale && value.zero_point == grid.zero_point;
}

/// Whether every reader takes the value as its filters, which look through DequantizeLinear themselves.
bool only_filters(const Lowering& lowering, const std::string& value) {
    const auto& readers = lowering.uses().consumers(value);
    return std::all_of(readers.begin(), readers.end(), [&](const Node* reader) {
        const bool multiplies = reader->is("Conv") || reader->is("Gemm") || reader->is("MatMul");
        return multiplies && reader->input(1) == value && reader->input(0) != value && reader->input(2) != value;
    });
}

//  x: fp16            x: fp16
//  |           ==>    |
//  Quantize           Reformat to int8
//
// Where x is an int8 value already (max pooling of one, say) and of the same scale, there is nothing to do.
Result<void> quantize(Lowering& lowering, Node& node) {
    const auto grid = lowering.grid(node);
    if (!grid) {
        Error error = Lowering::cannot(node, "only int8 with one constant scale is taken");
        error.hint = cure;
        return error;
    }
    if (const auto same = lowering.quantised_form(node.input(0)); same && same_grid(lowering.value(*same), *grid)) {
        lowering.add_form(node.output(0), *same);
        lowering.mark(&node);
        return {};
    }
    if (grid->zero_point != 0) {
        Error error =
            Lowering::cannot(node, "a zero point of " + std::to_string(grid->zero_point) +
                                       " is taken only straight behind a convolution or matrix product, with "
                                       "nothing but a residual sum, Relu or Clip between and no other reader");
        error.hint = cure;
        return error;
    }
    LATHE_TRY(const ValueId from, lowering.want_any(node.input(0)));
    const Value source = lowering.value(from);
    const ValueId made = lowering.make(node.output(0), ElementType::s8, source.dims, source.layout, grid->scale);
    lowering.add(node, {}, Reformat{}, {from}, {made}, source.type);
    return {};
}

Result<void> dequantize_constant(Lowering& lowering, Node& node) {
    lowering.mark(&node);
    if (only_filters(lowering, node.output(0))) return {};
    const auto filter = lowering.filter(node.output(0));
    if (!filter) return Lowering::cannot(node, "only symmetric int8 constants are taken");
    const ElementType type = lowering.base();
    const std::string key = filter->values.key() + "|dequantised|" + filter->scales->key() + "|" + to_string(type);
    LATHE_TRY(const WeightId weight,
              lowering.store(key, type, filter->values.shape, [&]() -> Result<std::vector<std::byte>> {
                  LATHE_TRY(auto values, lowering.floats(filter->values));
                  LATHE_TRY(const auto scales, lowering.floats(*filter->scales));
                  const Shape& shape = filter->values.shape;
                  const auto axis = static_cast<std::size_t>(filter->axis);
                  const auto inner = static_cast<std::size_t>(
                      shape.empty() ? 1 : element_count(Shape(shape.begin() + filter->axis + 1, shape.end())));
                  const std::size_t many = shape.empty() ? 1 : static_cast<std::size_t>(shape[axis]);
                  for (std::size_t i = 0; i < values.size(); ++i)
                      values[i] *= scales.size() == 1 ? scales[0] : scales[i / inner % many];
                  return converted(values, type, filter->values.name);
              }));
    const ValueId made = lowering.make(node.output(0), type, filter->values.shape, Layout::linear);
    lowering.value(made).role = Role::constant;
    lowering.value(made).weight = weight;
    return {};
}

Result<void> dequantize(Lowering& lowering, Node& node) {
    if (lowering.constant(node.input(0))) return dequantize_constant(lowering, node);
    const auto grid = lowering.grid(node);
    const auto stored = lowering.quantised_form(node.input(0));
    if (!grid || !stored) {
        Error error = Lowering::cannot(node, "only int8 with one constant scale is taken");
        error.hint = cure;
        return error;
    }
    lowering.mark(&node);
    if (same_grid(lowering.value(*stored), *grid)) {
        lowering.add_form(node.output(0), *stored);
    } else {
        const Value source = lowering.value(*stored);
        const ValueId made = lowering.make_alias(node.output(0), *stored, source.dims, source.layout);
        lowering.value(made).scale = grid->scale;
        lowering.value(made).zero_point = grid->zero_point;
    }
    return {};
}

} // namespace

std::optional<Grid> Lowering::grid(const Node& node) const {
    const auto zero_point = one_zero_point(*this, node.input(2));
    const auto found = scalar(node.input(1));
    if (!zero_point || !found || !(*found > 0)) return std::nullopt;
    return Grid{*found, *zero_point};
}

std::optional<float> Lowering::symmetric_scale(const Node& node) const {
    const auto found = grid(node);
    if (!found || found->zero_point != 0) return std::nullopt;
    return found->scale;
}

std::optional<Filter> Lowering::filter(const std::string& value) const {
    if (auto fixed = constant(value)) {
        if (!is_floating(fixed->type)) return std::nullopt;
        return Filter{std::move(*fixed), std::nullopt, 0};
    }
    const Node* producer = uses_->producer(value);
    if (producer == nullptr || !producer->is("DequantizeLinear")) return std::nullopt;
    auto stored = constant(producer->input(0));
    auto scales = constant(producer->input(1));
    if (!stored || !scales || stored->type != DataType::int8) return std::nullopt;
    // An omitted zero point is 0 of the input's type.
    if (!producer->input(2).empty() && !all_zero(*this, producer->input(2))) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(stored->shape.size());
    std::int64_t axis = producer->int_or("axis", 1);
    if (axis < 0) axis += rank;
    if (scales->count() == 1) axis = 0;
    if (producer->int_or("block_size", 0) != 0 || axis < 0 || (rank != 0 && axis >= rank)) return std::nullopt;
    if (scales->count() != 1 && scales->count() != stored->shape[static_cast<std::size_t>(axis)]) return std::nullopt;
    return Filter{std::move(*stored), std::move(*scales), axis};
}

void add_quantization(LoweringTable& table) {
    table.emplace("QuantizeLinear", quantize);
    table.emplace("DequantizeLinear", dequantize);
}

} // namespace lathe::cuda
