// Weights of few bits in blocks with a scale each, as ONNX Runtime packs them, as ONNX has them or in floats.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx/fused_operators.hpp"
#include "support/half.hpp"
#include "support/memory_limit.hpp"

namespace lathe {
namespace {

/// Rows of numbers of 2, 4 or 8 bits, the first in the lowest bits; each row begins with a byte.
class Packed {
public:
    Packed(std::span<const std::byte> bytes, std::size_t bits, std::size_t row_bytes)
        : bytes_(bytes), bits_(bits), row_bytes_(row_bytes) {}
    int at(std::size_t row, std::size_t column) const {
        const std::size_t bit = column * bits_;
        const auto byte = std::to_integer<unsigned>(bytes_[row * row_bytes_ + bit / 8]);
        return static_cast<int>((byte >> (bit % 8)) & ((1U << bits_) - 1));
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t bits_, row_bytes_;
};

/// A matrix of `rows` by `columns` in blocks along the columns.
struct Blocks {
    std::size_t rows = 0, columns = 0, block = 0, bits = 0;
    std::size_t blocks() const { return (columns + block - 1) / block; }
    std::size_t row_bytes() const { return blocks() * block * bits / 8; }
    std::size_t zero_row_bytes() const { return (blocks() * bits + 7) / 8; }
};

/// Zero points as numbers; by default the middle. Nothing: of another form.
std::optional<std::vector<float>> zero_points(const Blocks& of, const Tensor* given) {
    std::vector<float> zeros(of.rows * of.blocks(), static_cast<float>(1U << (of.bits - 1)));
    if (given == nullptr) return zeros;
    if (given->type() == DataType::uint8 && given->bytes().size() == of.rows * of.zero_row_bytes()) {
        const Packed packed(given->bytes(), of.bits, of.zero_row_bytes());
        for (std::size_t i = 0; i < zeros.size(); ++i)
            zeros[i] = static_cast<float>(packed.at(i / of.blocks(), i % of.blocks()));
        return zeros;
    }
    auto floats = given->type() == DataType::uint8 ? std::vector<float>{} : given->to_floats();
    if (floats.size() != zeros.size()) return std::nullopt;
    return floats;
}

bool is_right(const Blocks& of, const Tensor& values) {
    constexpr std::size_t most = std::size_t{1} << 32, most_in_block = std::size_t{1} << 20;
    return (of.bits == 2 || of.bits == 4 || of.bits == 8) && of.rows > 0 && of.rows < most && of.columns > 0 &&
           of.columns < most && of.block >= 8 && of.block <= most_in_block &&
           values.bytes().size() == of.rows * of.row_bytes();
}

/// The same bytes as elements of another type.
Tensor typed(const Tensor& values, DataType type, Shape shape) {
    return Tensor("", type, std::move(shape), values.bytes(), std::make_shared<const Tensor>(values));
}

/// In the type of the scales.
std::optional<Tensor> in_floats(const Blocks& of, const Tensor& values, const Tensor& scales, const Tensor* zeros) {
    const DataType type = scales.type();
    const bool half = type == DataType::float16 || type == DataType::bfloat16;
    if (!half && type != DataType::float32) return std::nullopt;
    const auto factors = scales.to_floats();
    const auto shifts = zero_points(of, zeros);
    if (factors.size() != of.rows * of.blocks() || !shifts) return std::nullopt;
    if (of.rows * of.columns > memory_limit() / (half ? 2 : 4)) return std::nullopt;
    const Packed packed(values.bytes(), of.bits, of.row_bytes());
    const Shape shape{static_cast<std::int64_t>(of.rows), static_cast<std::int64_t>(of.columns)};
    const auto filled = [&](auto numbers, auto convert) {
        for (std::size_t row = 0; row < of.rows; ++row) {
            for (std::size_t column = 0; column < of.columns; ++column) {
                const std::size_t block = row * of.blocks() + column / of.block;
                const float value = (static_cast<float>(packed.at(row, column)) - (*shifts)[block]) * factors[block];
                numbers[row * of.columns + column] = convert(value);
            }
        }
        return Tensor::of("", type, shape, std::span(std::as_const(numbers)));
    };
    const std::size_t count = of.rows * of.columns;
    if (type == DataType::float32) return filled(std::vector<float>(count), [](float value) { return value; });
    return filled(std::vector<std::uint16_t>(count), [&](float value) {
        return type == DataType::float16 ? half_from_float(value) : bfloat16_from_float(value);
    });
}

std::size_t positive(std::int64_t value) { return value > 0 ? static_cast<std::size_t>(value) : 0; }

/// As DequantizeLinear of ONNX has them from opset 21 on, in 4 or 8 bits: the bytes as they are, of zero points those
/// of rows that end with a byte. Its name; nothing where that has no such form.
std::optional<std::string> dequantised(NodeWriter& to, const Blocks& of, const std::string& name, const Tensor& values,
                                       const Tensor& scales, const Tensor* zeros) {
    const bool whole = of.columns % of.block == 0 && (of.bits == 4 || of.bits == 8);
    if (to.opset() < first_opset_in_blocks || !whole || (zeros != nullptr && zeros->type() != DataType::uint8) ||
        scales.count() != of.rows * of.blocks())
        return std::nullopt;
    const auto points = zero_points(of, zeros);
    if (!points) return std::nullopt;
    const DataType type = of.bits == 4 ? DataType::uint4 : DataType::uint8;
    std::vector<std::uint8_t> packed((points->size() * of.bits + 7) / 8);
    for (std::size_t i = 0; i < points->size(); ++i) {
        const auto point = static_cast<unsigned>((*points)[i]);
        packed[i * of.bits / 8] |= static_cast<std::uint8_t>(point << (i * of.bits % 8));
    }
    const auto rows = static_cast<std::int64_t>(of.rows), columns = static_cast<std::int64_t>(of.columns);
    const Shape by_block{rows, static_cast<std::int64_t>(of.blocks())};
    const std::string weights = to.add(name + "_in_rows", typed(values, type, {rows, columns}));
    return to.op("DequantizeLinear",
                 {weights, to.add(name + "_scales", scales.reshaped(by_block)),
                  to.add(name + "_zeros", Tensor("", type, by_block, std::as_bytes(std::span(packed))))},
                 {{"axis", std::int64_t{1}}, {"block_size", static_cast<std::int64_t>(of.block)}});
}

/// The matrix with a row for each output, dequantised as the model runs or in floats.
std::optional<std::string> matrix(NodeWriter& to, const Blocks& of, std::size_t values_at, std::size_t scales_at,
                                  std::size_t zeros_at) {
    const Node& node = to.node();
    const std::string& name = node.input(values_at);
    const Tensor *values = to.graph().constant(name), *scales = to.graph().constant(node.input(scales_at));
    const Tensor* zeros = node.input(zeros_at).empty() ? nullptr : to.graph().constant(node.input(zeros_at));
    if (values == nullptr || scales == nullptr || (zeros == nullptr && !node.input(zeros_at).empty()) ||
        values->type() != DataType::uint8)
        return std::nullopt;
    if (!is_right(of, *values)) return std::nullopt;
    if (auto small = dequantised(to, of, name, *values, *scales, zeros)) return small;
    const auto floats = in_floats(of, *values, *scales, zeros);
    if (!floats) return std::nullopt;
    return to.add(name + "_float", *floats);
}

// A, B, scales, zero points, indices of groups, bias
bool block_product(NodeWriter& to) {
    const Node& node = to.node();
    if (!node.input(4).empty() || node.int_or("weight_prepacked", 0) != 0) return false;
    const Blocks blocks{positive(node.int_or("N", 0)), positive(node.int_or("K", 0)),
                        positive(node.int_or("block_size", 0)), positive(node.int_or("bits", 4))};
    const auto weights = matrix(to, blocks, 1, 2, 3);
    if (!weights) return false;
    const std::string turned = to.op("Transpose", {*weights}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    to.result(0, added(to, to.op("MatMul", {node.input(0), turned}), node.input(5)));
    return true;
}

// data, indices, scales, zero points
bool block_gather(NodeWriter& to) {
    const Node& node = to.node();
    const std::int64_t along = node.int_or("quantize_axis", 1);
    const std::size_t bits = positive(node.int_or("bits", 4)), block = positive(node.int_or("block_size", 128));
    const Tensor* values = to.graph().constant(node.input(0));
    if (values == nullptr || values->shape().size() != 2 || node.int_or("gather_axis", 0) != 0 ||
        (along != 1 && along != -1) || bits == 0 || bits > 8 || block == 0)
        return false;
    const Blocks blocks{positive(values->shape()[0]), positive(values->shape()[1]) * 8 / bits, block, bits};
    const auto table = blocks.columns % block == 0 ? matrix(to, blocks, 0, 2, 3) : std::nullopt;
    if (!table) return false;
    Node gather = made("Gather", {*table, node.input(1)});
    gather.set("axis", std::int64_t{0});
    to.put(std::move(gather), {node.output(0)});
    return true;
}

} // namespace

const FusedForms& block_weight_forms() {
    static const FusedForms forms{{"GatherBlockQuantized", {block_gather, 3}}, {"MatMulNBits", {block_product, 3}}};
    return forms;
}

} // namespace lathe
