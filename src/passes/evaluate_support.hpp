#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "passes/evaluate.hpp"

namespace lathe::evaluation {

/// A node being evaluated: what the operator's function reads.
struct Call {
    const Node& node;
    std::span<const Tensor* const> inputs;
    const NodeEvaluationOptions& options;

    /// The input, or nullptr where omitted or absent.
    const Tensor* input(std::size_t index) const { return index < inputs.size() ? inputs[index] : nullptr; }
    /// The input, which must be there.
    Result<const Tensor*> required(std::size_t index) const;
    /// Integers given as an input at `index`, or, in older opsets, as an attribute. Nothing if neither is given.
    std::optional<std::vector<std::int64_t>> integers(std::string_view attribute, std::size_t index) const;
};

using Outputs = Result<std::vector<Tensor>>;
using Function = Outputs (*)(const Call&);
using FunctionTable = std::unordered_map<std::string_view, Function>;

void add_elementwise(FunctionTable& table);
void add_movement(FunctionTable& table);
void add_shapes(FunctionTable& table);
void add_reductions(FunctionTable& table);
void add_products(FunctionTable& table);
void add_indexed(FunctionTable& table);
void add_signals(FunctionTable& table);

Error cannot(const Call& call, std::string why);
Error invalid(const Call& call, std::string why);

/// Whether the inputs are what they say, and those that say where and how often hold integers.
Result<void> check_counts(const Call& call);

/// Elements in the type that arithmetic is done in: float for float16, bfloat16 and float32, double for float64,
/// int64 for integers and booleans.
using Elements = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>>;
/// Fails for uint64 (does not fit int64) and for types without arithmetic.
Result<Elements> elements_of(const Call& call, const Tensor& tensor);
/// Rounds or wraps back to `type`.
Tensor tensor_from(DataType type, Shape shape, const Elements& elements);

/// An error if a tensor of this type and shape is larger than allowed.
Result<void> check_size(const Call& call, DataType type, const Shape& shape);

/// ONNX multidirectional broadcasting; nothing if the shapes do not fit.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);
/// Row-major strides in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);
/// Strides to read `from` as if expanded to `to`: 0 where a dimension is repeated.
std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to);
/// An axis counted from the end made non-negative; nothing if out of range.
std::optional<std::size_t> normalised_axis(std::int64_t axis, std::size_t rank);

/// Calls visit(output index, offset) for each element of `shape` in row-major order, where offset = base + the sum of
/// index times stride. Offsets must stay within the source.
template <class Visit>
void walk(const Shape& shape, const std::vector<std::int64_t>& strides, std::int64_t base, Visit visit) {
    const std::int64_t count = element_count(shape);
    Shape index(shape.size(), 0);
    std::int64_t offset = base;
    for (std::int64_t i = 0; i < count; ++i) {
        visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            offset += strides[axis];
            if (++index[axis] < shape[axis]) break;
            offset -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

/// Copies elements of any byte-sized type: output element i is input element at its walked offset.
Outputs gather_elements(const Call& call, const Tensor& input, const Shape& shape,
                        const std::vector<std::int64_t>& strides, std::int64_t base);

/// Bytes of one element; 0 for strings and types packed below a byte, which movement refuses.
std::size_t element_bytes(DataType type);

} // namespace lathe::evaluation
