// A direction of an LSTM, GRU or RNN: the product with the input for all steps at once, then the steps.

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

std::optional<Cell> cell_named(const std::string& name) {
    if (name == "LSTM") return Cell::lstm;
    if (name == "GRU") return Cell::gru;
    if (name == "RNN") return Cell::rnn;
    return std::nullopt;
}

/// Numbers from..from + count of a constant.
Result<std::vector<float>> some(const Lowering& lowering, const Constant& constant, std::int64_t from,
                                std::int64_t count) {
    LATHE_TRY(const auto all, lowering.floats(constant));
    return std::vector<float>(all.begin() + from, all.begin() + from + count);
}

Result<void> recurrent_direction(Lowering& lowering, Node& node) {
    Recurrent detail;
    const auto cell = cell_named(node.string_or("cell", ""));
    if (!cell) return Lowering::cannot(node, "its cell");
    detail.cell = *cell;
    detail.place = node.int_or("place", 0);
    detail.reverse = node.int_or("reverse", 0) != 0;
    detail.linear_before_reset = node.int_or("linear_before_reset", 0) != 0;
    detail.initial = !node.input(4).empty() || !node.input(5).empty();
    const auto weights = lowering.constant(node.input(1));
    const auto recurrence = lowering.constant(node.input(2));
    const auto bias = lowering.constant(node.input(3));
    if (!weights || !recurrence || (!node.input(3).empty() && !bias))
        return Lowering::cannot(node, "its weights are not constant");
    const std::string& x = node.input(0);
    const Shape dims = lowering.dims(x);
    const auto type = lowering.stored_type(lowering.type_of(x));
    if (!type || !is_real(*type)) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    if (dims.size() != 3 || weights->shape.size() != 3) return Lowering::cannot(node, "its sizes");
    const std::int64_t rows = weights->shape[1], inputs = weights->shape[2], width = recurrence->shape[2];
    if (detail.initial && (node.input(4).empty() || (*cell == Cell::lstm && node.input(5).empty())))
        return Lowering::cannot(node, "only one of its two initial states");

    Gemm product;
    product.m = dims[0] * dims[1];
    product.n = rows;
    product.k = inputs;
    const std::string key = weights->key() + "|direction " + std::to_string(detail.place);
    LATHE_TRY(
        product.weight,
        lowering.store(key + "|" + to_string(*type), *type, {rows, inputs}, [&]() -> Result<std::vector<std::byte>> {
            LATHE_TRY(const auto values, some(lowering, *weights, detail.place * rows * inputs, rows * inputs));
            return converted(values, *type, weights->name);
        }));
    const std::int64_t padded = (rows + 15) / 16 * 16;
    const std::string bias_key = bias ? bias->key() : "no bias";
    LATHE_TRY(product.epilogue.bias,
              lowering.store_vector(key + "|" + bias_key, padded, [&]() -> Result<std::vector<float>> {
                  if (!bias) return std::vector<float>(static_cast<std::size_t>(rows));
                  return some(lowering, *bias, detail.place * 2 * rows, rows);
              }));
    LATHE_TRY(const ValueId in, lowering.want(x, *type, Layout::linear));
    const ValueId gates = lowering.make(node.output(0) + "/gates", *type, {dims[0], dims[1], rows}, Layout::linear);
    FusedOp& gemm = lowering.add(node, {}, product, {in}, {gates}, *type);
    gemm.macs = product.m * product.n * product.k;
    gemm.tf32 = lowering.tf32() && *type == ElementType::f32;

    LATHE_TRY(const ValueId matrix, lowering.constant_value(*recurrence, *type));
    LATHE_TRY(const ValueId own_bias,
              lowering.vector_value(key + "|recurrence " + bias_key, {rows}, [&]() -> Result<std::vector<float>> {
                  if (!bias) return std::vector<float>(static_cast<std::size_t>(rows));
                  return some(lowering, *bias, (detail.place * 2 + 1) * rows, rows);
              }));
    std::vector<ValueId> operands{gates, matrix, own_bias};
    if (detail.initial) {
        for (const std::size_t i : {std::size_t{4}, std::size_t{5}}) {
            if (i == 5 && *cell != Cell::lstm) break;
            LATHE_TRY(const ValueId state, lowering.want_linear(node.input(i)));
            operands.push_back(state);
        }
    }
    std::vector<ValueId> outputs;
    for (const std::string& output : node.outputs)
        outputs.push_back(lowering.make(output, *type, lowering.dims(output), Layout::linear));
    FusedOp& steps = lowering.add(node, {}, detail, std::move(operands), std::move(outputs), *type);
    steps.macs = dims[0] * dims[1] * rows * width;
    return {};
}

} // namespace

void add_recurrent(LoweringTable& table) { table.emplace("RecurrentDirection", recurrent_direction); }

} // namespace lathe::cuda
