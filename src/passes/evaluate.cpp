#include "passes/evaluate.hpp"

#include <algorithm>
#include <utility>

#include "passes/evaluate_support.hpp"
#include "support/half.hpp"

namespace lathe {
namespace evaluation {
namespace {

const FunctionTable& functions() {
    static const FunctionTable table = [] {
        FunctionTable all;
        add_elementwise(all);
        add_movement(all);
        add_shapes(all);
        add_reductions(all);
        add_products(all);
        add_indexed(all);
        add_signals(all);
        return all;
    }();
    return table;
}

template <class T, class From>
void store(std::vector<std::byte>& bytes, const std::vector<From>& values) {
    bytes.resize(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const T value = static_cast<T>(values[i]);
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
}

template <class From>
std::vector<std::byte> stored(DataType type, const std::vector<From>& values) {
    std::vector<std::byte> bytes;
    switch (type) {
        case DataType::float32: store<float>(bytes, values); break;
        case DataType::float64: store<double>(bytes, values); break;
        case DataType::int8: store<std::int8_t>(bytes, values); break;
        case DataType::uint8: store<std::uint8_t>(bytes, values); break;
        case DataType::int16: store<std::int16_t>(bytes, values); break;
        case DataType::uint16: store<std::uint16_t>(bytes, values); break;
        case DataType::int32: store<std::int32_t>(bytes, values); break;
        case DataType::uint32: store<std::uint32_t>(bytes, values); break;
        case DataType::int64: store<std::int64_t>(bytes, values); break;
        case DataType::boolean:
            for (const From value : values)
                bytes.push_back(static_cast<std::byte>(value != From{0} ? 1 : 0));
            break;
        case DataType::float16:
        case DataType::bfloat16: {
            std::vector<std::uint16_t> bits(values.size());
            const auto narrow = type == DataType::float16 ? half_from_float : bfloat16_from_float;
            std::transform(values.begin(), values.end(), bits.begin(),
                           [narrow](From value) { return narrow(static_cast<float>(value)); });
            store<std::uint16_t>(bytes, bits);
            break;
        }
        default: break;
    }
    return bytes;
}

} // namespace

Result<const Tensor*> Call::required(std::size_t index) const {
    if (const Tensor* tensor = input(index)) return tensor;
    return invalid(*this, "input " + std::to_string(index) + " is missing");
}

std::optional<std::vector<std::int64_t>> Call::integers(std::string_view attribute, std::size_t index) const {
    if (const Tensor* tensor = input(index)) return tensor->to_int64s();
    if (node.attribute(attribute) == nullptr) return std::nullopt;
    return node.ints_or(attribute, {});
}

Error cannot(const Call& call, std::string why) {
    return {ErrorCode::unsupported, "cannot evaluate " + call.node.op_type + ": " + std::move(why),
            "node " + call.node.label(), "the node is left as it is"};
}

Error invalid(const Call& call, std::string why) {
    return {ErrorCode::invalid_argument, call.node.op_type + ": " + std::move(why), "node " + call.node.label(),
            "the model is not valid ONNX here; export it again"};
}

Result<void> check_counts(const Call& call) {
    for (const Tensor* tensor : call.inputs) {
        const bool packed = tensor != nullptr && tensor->type() != DataType::string;
        if (packed && tensor->bytes().size() != byte_size(tensor->type(), tensor->count()))
            return invalid(call, "an input does not hold what its shape says");
    }
    // Inputs that say where and how often are integers. Of other types their numbers would be read as none.
    static const std::unordered_map<std::string_view, std::size_t> first_of_integers{
        {"Slice", 1},           {"Gather", 1},          {"Tile", 1},       {"Expand", 1},     {"Reshape", 1},
        {"Squeeze", 1},         {"Unsqueeze", 1},       {"Split", 1},      {"Trilu", 1},      {"Pad", 1},
        {"ConstantOfShape", 0}, {"ReduceSum", 1},       {"ReduceMean", 1}, {"ReduceProd", 1}, {"ReduceMax", 1},
        {"ReduceMin", 1},       {"ReduceSumSquare", 1}, {"ReduceL1", 1},   {"ReduceL2", 1}};
    const auto found = first_of_integers.find(call.node.op_type);
    if (found == first_of_integers.end()) return {};
    for (std::size_t i = found->second; i < call.inputs.size(); ++i) {
        const bool pad_value = call.node.op_type == "Pad" && i == 2;
        const Tensor* tensor = call.inputs[i];
        if (tensor == nullptr || pad_value) continue;
        if (tensor->type() != DataType::int64 && tensor->type() != DataType::int32)
            return invalid(call, "input " + std::to_string(i) + " holds no integers");
    }
    return {};
}

Result<Elements> elements_of(const Call& call, const Tensor& tensor) {
    switch (tensor.type()) {
        case DataType::float16:
        case DataType::bfloat16:
        case DataType::float32: return Elements(tensor.to_floats());
        case DataType::float64: {
            const auto values = tensor.values<double>();
            return Elements(std::vector<double>(values.begin(), values.end()));
        }
        case DataType::boolean:
        case DataType::int8:
        case DataType::uint8:
        case DataType::int16:
        case DataType::uint16:
        case DataType::int32:
        case DataType::uint32:
        case DataType::int64: return Elements(tensor.to_int64s());
        default: return cannot(call, "no arithmetic on " + to_string(tensor.type()));
    }
}

Tensor tensor_from(DataType type, Shape shape, const Elements& elements) {
    const auto bytes = std::visit([&](const auto& values) { return stored(type, values); }, elements);
    return Tensor("", type, std::move(shape), bytes);
}

Result<void> check_size(const Call& call, DataType type, const Shape& shape) {
    const std::int64_t count = element_count(shape);
    const std::size_t limit = call.options.max_output_bytes;
    if (count < 0 || static_cast<std::size_t>(count) > limit ||
        byte_size(type, static_cast<std::size_t>(count)) > limit) {
        return Error{ErrorCode::out_of_range, "the result of " + call.node.op_type + " would be too large to keep",
                     "node " + call.node.label(), "the node is left as it is"};
    }
    return {};
}

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
    const std::size_t rank = std::max(a.size(), b.size());
    Shape shape(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
        const std::int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
        if (x != y && x != 1 && y != 1) return std::nullopt;
        shape[i] = x == 1 ? y : x;
    }
    return shape;
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;)
        strides[i - 1] = strides[i] * shape[i];
    return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
    const auto own = strides_of(from);
    std::vector<std::int64_t> strides(to.size(), 0);
    const std::size_t offset = to.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i)
        strides[offset + i] = from[i] == 1 ? 0 : own[i];
    return strides;
}

std::optional<std::size_t> normalised_axis(std::int64_t axis, std::size_t rank) {
    const auto dims = static_cast<std::int64_t>(rank);
    if (axis < -dims || axis >= dims) return std::nullopt;
    return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

std::size_t element_bytes(DataType type) {
    const std::size_t bits = bit_width(type);
    return bits % 8 == 0 ? bits / 8 : 0;
}

Outputs gather_elements(const Call& call, const Tensor& input, const Shape& shape,
                        const std::vector<std::int64_t>& strides, std::int64_t base) {
    const std::size_t width = element_bytes(input.type());
    if (width == 0) return cannot(call, "elements of " + to_string(input.type()) + " have no bytes of their own");
    LATHE_CHECK(check_size(call, input.type(), shape));
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shape)) * width);
    const std::byte* source = input.bytes().data();
    walk(shape, strides, base, [&](std::size_t i, std::size_t offset) {
        std::memcpy(bytes.data() + i * width, source + offset * width, width);
    });
    return std::vector<Tensor>{Tensor("", input.type(), shape, bytes)};
}

} // namespace evaluation

bool can_evaluate(const Node& node) { return node.domain.empty() && evaluation::functions().contains(node.op_type); }

Result<std::vector<Tensor>> evaluate(const Node& node, std::span<const Tensor* const> inputs,
                                     const NodeEvaluationOptions& options) {
    const evaluation::Call call{node, inputs, options};
    if (!can_evaluate(node)) return evaluation::cannot(call, "the operator is not one of those known");
    LATHE_CHECK(evaluation::check_counts(call));
    return evaluation::functions().at(node.op_type)(call);
}

} // namespace lathe
