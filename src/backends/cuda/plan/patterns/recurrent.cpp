// LSTM, GRU, RNN: the product with the input for all steps and directions at once, then the steps.

#include "backends/cuda/plan/recurrent.hpp"

#include <algorithm>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

/// The first or second half of each direction's biases: of the input, of the recurrence.
Result<std::vector<float>> biases(const Lowering& lowering, const std::optional<Constant>& bias, std::int64_t half,
                                  std::int64_t directions, std::int64_t rows) {
    std::vector<float> made(static_cast<std::size_t>(directions * rows));
    if (!bias) return made;
    LATHE_TRY(const auto all, lowering.floats(*bias));
    for (std::int64_t d = 0; d < directions; ++d)
        std::copy_n(all.begin() + (2 * d + half) * rows, rows, made.begin() + d * rows);
    return made;
}

Result<void> recurrent(Lowering& lowering, Node& node) {
    if (const std::string why = recurrent_refusal(node); !why.empty()) return Lowering::cannot(node, why);
    Recurrent detail;
    detail.cell = node.is("LSTM")  ? Cell::lstm
                  : node.is("GRU") ? Cell::gru
                  : is_relu(node)  ? Cell::rnn_relu
                                   : Cell::rnn;
    const bool lstm = detail.cell == Cell::lstm;
    detail.reverse = node.string_or("direction", "forward") == "reverse";
    detail.linear_before_reset = node.int_or("linear_before_reset", 0) != 0;
    detail.initial = !node.input(5).empty() || !node.input(6).empty();
    const auto weights = lowering.constant(node.input(1));
    const auto recurrence = lowering.constant(node.input(2));
    const auto bias = lowering.constant(node.input(3));
    if (!weights || !recurrence || (!node.input(3).empty() && !bias))
        return Lowering::cannot(node, "its weights are not constant");
    const std::string& x = node.input(0);
    const Shape dims = lowering.dims(x);
    const auto type = lowering.stored_type(lowering.type_of(x));
    if (!type || !is_real(*type)) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    if (dims.size() != 3 || weights->shape.size() != 3 || recurrence->shape.size() != 3)
        return Lowering::cannot(node, "its sizes");
    if (detail.initial && (node.input(5).empty() || (lstm && node.input(6).empty())))
        return Lowering::cannot(node, "only one of its two initial states");
    const std::int64_t directions = weights->shape[0], rows = weights->shape[1], inputs = weights->shape[2];
    const std::int64_t all = directions * rows, width = recurrence->shape[2];
    if (bias && bias->count() != 2 * all) return Lowering::cannot(node, "the size of its bias");

    Gemm product;
    product.m = dims[0] * dims[1];
    product.n = all;
    product.k = inputs;
    const std::string key = weights->key() + "|recurrent|" + to_string(*type);
    LATHE_TRY(product.weight, lowering.store(key, *type, {all, inputs}, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, lowering.floats(*weights));
        return converted(values, *type, weights->name);
    }));
    const std::string bias_key = key + "|" + (bias ? bias->key() : "no bias");
    LATHE_TRY(product.epilogue.bias, lowering.store_vector(bias_key, (all + 15) / 16 * 16, [&] {
        return biases(lowering, bias, 0, directions, rows);
    }));
    LATHE_TRY(const ValueId in, lowering.want(x, *type, Layout::linear));
    const ValueId gates = lowering.make(node.label() + "/gates", *type, {dims[0], dims[1], all}, Layout::linear);
    FusedOp& gemm = lowering.add(node, {}, product, {in}, {gates}, *type);
    gemm.macs = product.m * product.n * product.k;
    gemm.tf32 = lowering.tf32() && *type == ElementType::f32;

    LATHE_TRY(const ValueId matrix, lowering.constant_value(*recurrence, *type));
    LATHE_TRY(const ValueId own_bias, lowering.vector_value(bias_key + "|own", {all}, [&] {
        return biases(lowering, bias, 1, directions, rows);
    }));
    std::vector<ValueId> operands{gates, matrix, own_bias};
    for (std::size_t i = 5; detail.initial && i < (lstm ? 7U : 6U); ++i) {
        LATHE_TRY(const ValueId state, lowering.want_linear(node.input(i)));
        operands.push_back(state);
    }
    if (!node.input(4).empty()) {
        const auto lengths = lowering.constant(node.input(4));
        const auto numbers =
            lengths && lengths->tensor != nullptr ? lengths->tensor->to_int64s() : std::vector<std::int64_t>();
        // What is as long as the longest is no shorter than any.
        detail.lengths =
            numbers.empty() || std::any_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n < dims[0]; });
        if (detail.lengths) {
            LATHE_TRY(const ValueId value, lowering.want(node.input(4), ElementType::s32, Layout::linear));
            operands.push_back(value);
        }
    }
    std::vector<ValueId> outputs;
    for (std::size_t i = 0; i < (lstm ? 3U : 2U); ++i) {
        const std::string name =
            node.output(i).empty() ? node.label() + "/unread " + std::to_string(i) : node.output(i);
        const Shape sizes = i == 0 ? Shape{dims[0], directions, dims[1], width} : Shape{directions, dims[1], width};
        outputs.push_back(lowering.make(name, *type, sizes, Layout::linear));
    }
    FusedOp& steps = lowering.add(node, {}, detail, std::move(operands), std::move(outputs), *type);
    steps.macs = dims[0] * dims[1] * all * width;
    return {};
}

} // namespace

void add_recurrent(LoweringTable& table) {
    for (const char* name : {"LSTM", "GRU", "RNN"})
        table.emplace(name, recurrent);
}

} // namespace lathe::cuda
