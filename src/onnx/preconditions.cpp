#include "onnx/preconditions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "onnx/op_types.hpp"
#include "support/memory_limit.hpp"

namespace lathe {

namespace {

Error wrong(const Node& node, std::string why, std::string hint) {
    return {ErrorCode::parse_error, std::move(why), "node " + node.label(), std::move(hint)};
}

bool is_integer(DataType type) {
    switch (type) {
        case DataType::int8:
        case DataType::uint8:
        case DataType::int16:
        case DataType::uint16:
        case DataType::int32:
        case DataType::uint32:
        case DataType::int64:
        case DataType::uint64: return true;
        default: return false;
    }
}

bool holds(const Tensor& tensor, std::int64_t value) {
    const auto values = tensor.to_int64s();
    return std::ranges::find(values, value) != values.end();
}

/// Constants of a graph, as initializers or as Constant nodes.
class Constants {
public:
    explicit Constants(const Graph& graph) : graph_(graph) {
        for (const auto& node : graph.nodes) {
            const Attribute* value = node->is("Constant") ? node->attribute("value") : nullptr;
            const auto* tensor = value == nullptr ? nullptr : std::get_if<Tensor>(&value->value);
            if (tensor != nullptr && !node->outputs.empty()) nodes_.emplace(node->outputs[0], tensor);
        }
    }
    const Tensor* find(const std::string& name) const {
        const auto found = nodes_.find(name);
        return found == nodes_.end() ? graph_.constant(name) : found->second;
    }

private:
    const Graph& graph_;
    std::unordered_map<std::string, const Tensor*> nodes_;
};

/// The processor traps at these; a runtime that folds constants runs into it when the model is built.
Result<void> check_division(const Constants& constants, const Node& node) {
    if (!(node.is("Div") || node.is("Mod")) || node.inputs.size() != 2) return {};
    const Tensor* divisor = constants.find(node.inputs[1]);
    if (divisor == nullptr || !is_integer(divisor->type())) return {};
    if (holds(*divisor, 0)) return wrong(node, "an integer is divided by 0", "change the constant");
    const Tensor* dividend = constants.find(node.inputs[0]);
    if (dividend == nullptr || !holds(*divisor, -1)) return {};
    const bool least =
        (dividend->type() == DataType::int64 && holds(*dividend, std::numeric_limits<std::int64_t>::min())) ||
        (dividend->type() == DataType::int32 && holds(*dividend, std::numeric_limits<std::int32_t>::min()));
    if (least) return wrong(node, "the least integer is divided by -1, which has no result", "change the constant");
    return {};
}

std::optional<Shape> shape_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->shape() : std::nullopt;
}

/// Axes given as numbers: the attribute, and CumSum's second input.
Result<void> check_axis(const Graph& graph, const Constants& constants, const Node& node) {
    std::optional<std::int64_t> axis;
    if (const Attribute* given = node.attribute("axis")) {
        if (const auto* number = std::get_if<std::int64_t>(&given->value)) axis = *number;
    }
    if (node.is("CumSum") && node.inputs.size() == 2) {
        const Tensor* given = constants.find(node.inputs[1]);
        const auto values = given == nullptr ? std::vector<std::int64_t>{} : given->to_int64s();
        if (values.size() == 1) axis = values[0];
    }
    if (!axis || node.inputs.empty()) return {};
    const auto shape = shape_of(graph, node.inputs[0]);
    if (!shape) return {};
    // CumSum's axis is below the rank; operators that add an axis (OneHot) or cut before one (Flatten) take the rank.
    const auto rank = static_cast<std::int64_t>(shape->size());
    const std::int64_t most = node.is("CumSum") ? rank - 1 : rank;
    if (*axis <= most && *axis >= -rank - (node.is("CumSum") ? 0 : 1)) return {};
    return wrong(node,
                 "axis " + std::to_string(*axis) + " of " + node.op_type + " is outside a value of " +
                     std::to_string(rank) + " dimensions",
                 "export the model again");
}

/// The size of an axis that may count from the end; nothing where it is open or there is none such.
std::optional<std::int64_t> size_of_axis(const Shape& shape, std::int64_t axis) {
    if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) return std::nullopt;
    const std::int64_t size = shape[static_cast<std::size_t>(axis)];
    return size < 0 ? std::nullopt : std::optional(size);
}

/// Constant indices outside of what they choose from: some runtimes read beside the tensor, OpenVINO gives zeros.
Result<void> check_indices(const Graph& graph, const Constants& constants, const Node& node) {
    const bool scatters = node.is("ScatterElements") || node.is("Scatter");
    const bool by_axis = node.is("Gather") || node.is("GatherElements") || scatters;
    const bool by_tuple = node.is("GatherND") || node.is("ScatterND");
    if ((!by_axis && !by_tuple) || node.inputs.size() < 2) return {};
    const Tensor* given = constants.find(node.inputs[1]);
    const auto shape = shape_of(graph, node.inputs[0]);
    if (given == nullptr || !shape) return {};
    const auto indices = given->to_int64s();
    // The last axis of the indices of GatherND and ScatterND is a place along so many axes.
    const auto places = by_axis || given->shape().empty() ? 1 : std::max<std::int64_t>(1, given->shape().back());
    const std::int64_t first = by_axis ? node.int_or("axis", 0) : node.int_or("batch_dims", 0);
    const auto rank = static_cast<std::int64_t>(shape->size());
    if (first < -rank || first > rank) return {}; // check_axis tells of axes; batch_dims are checked with the shapes
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto size = size_of_axis(*shape, first + static_cast<std::int64_t>(i) % places);
        if (!size || (indices[i] < *size && indices[i] >= -*size)) continue;
        return wrong(node,
                     "the constant index " + std::to_string(indices[i]) + " of " + node.op_type +
                         " is outside an axis of " + std::to_string(*size),
                     "change the constant, or export the model again");
    }
    return {};
}

/// More of the largest values than there are.
Result<void> check_top_k(const Graph& graph, const Constants& constants, const Node& node) {
    if (!node.is("TopK") || node.inputs.empty()) return {};
    std::int64_t k = node.int_or("k", 0); // up to opset 9
    if (node.inputs.size() > 1) {
        const Tensor* given = constants.find(node.inputs[1]);
        const auto values = given == nullptr ? std::vector<std::int64_t>{} : given->to_int64s();
        if (values.size() != 1) return {};
        k = values[0];
    }
    if (k < 0) return wrong(node, "a TopK of " + std::to_string(k) + " values", "change the constant K");
    const auto shape = shape_of(graph, node.inputs[0]);
    const auto size = shape ? size_of_axis(*shape, node.int_or("axis", -1)) : std::nullopt;
    if (!size || k <= *size) return {};
    return wrong(node, "TopK asks for " + std::to_string(k) + " values of an axis that has " + std::to_string(*size),
                 "change the constant K, or export the model again");
}

/// Sizes of parts that are negative, or not together the axis.
Result<void> check_split(const Graph& graph, const Constants& constants, const Node& node) {
    if (!node.is("Split") || node.inputs.empty()) return {};
    auto sizes = node.ints_or("split", {}); // up to opset 11
    if (const Tensor* given = constants.find(node.input(1))) sizes = given->to_int64s();
    if (sizes.empty()) return {};
    const std::string hint = "export the model again";
    for (const std::int64_t size : sizes)
        if (size < 0) return wrong(node, "a Split into a part of " + std::to_string(size), hint);
    const auto shape = shape_of(graph, node.inputs[0]);
    const auto size = shape ? size_of_axis(*shape, node.int_or("axis", 0)) : std::nullopt;
    double sum = 0; // no sum of integers that could overflow
    for (const std::int64_t part : sizes)
        sum += static_cast<double>(part);
    if (!size || sum == static_cast<double>(*size)) return {};
    return wrong(node, "the parts of a Split are together other than its axis of " + std::to_string(*size), hint);
}

/// Constant sizes that are negative. Reshape has -1 for "the rest", Expand for "as it is" in what PyTorch writes.
Result<void> check_sizes_given(const Constants& constants, const Node& node) {
    const bool of_shape = node.is("ConstantOfShape");
    const bool may_be_open = node.is("Reshape") || node.is("Expand");
    if (!of_shape && !may_be_open && !node.is("Tile")) return {};
    const Tensor* given = constants.find(node.input(of_shape ? 0 : 1));
    if (given == nullptr) return {};
    for (const std::int64_t size : given->to_int64s()) {
        if (size >= (may_be_open ? -1 : 0)) continue;
        return wrong(node, node.op_type + " is given the size " + std::to_string(size), "change the constant");
    }
    return {};
}

/// A slope that PRelu's input would have to be repeated for.
Result<void> check_slope(const Graph& graph, const Node& node) {
    if (!node.is("PRelu")) return {};
    const auto shape = shape_of(graph, node.input(0)), slope = shape_of(graph, node.input(1));
    if (!shape || !slope) return {};
    // Up to opset 6, and in what PyTorch wrote then, one dimension stands for the channels.
    if (slope->size() <= shape->size()) return {};
    return wrong(node, "the slope of PRelu is of shape " + to_string(*slope) + ", its input of " + to_string(*shape),
                 "the slope must be as the input or repeat along its axes: export the model again");
}

/// Inputs that are too few or too many; integers of a type that no version of ONNX has there.
Result<void> check_inputs(const Graph& graph, const Node& node, std::int64_t opset) {
    const auto counts = input_counts(node, opset);
    if (!counts) return {};
    const std::size_t given = node.inputs.size();
    if (given < counts->least || given > counts->most) {
        const bool few = given < counts->least;
        return wrong(node,
                     node.op_type + " has " + std::to_string(given) + " inputs, and takes at " +
                         (few ? "least " : "most ") + std::to_string(few ? counts->least : counts->most),
                     "export the model again");
    }
    for (std::size_t i = 0; i < given; ++i) {
        if (node.inputs[i].empty()) continue;
        const auto info = graph.info(node.inputs[i]);
        if (!info || !is_integer(info->type)) continue;
        const auto formal = formal_input(node, latest_opset(), i, info->type);
        if (!formal || formal->allowed) continue;
        return wrong(node,
                     "ONNX does not define " + node.op_type + " for " + to_string(info->type) + ", which " +
                         node.inputs[i] + " is",
                     "put a Cast before it");
    }
    return {};
}

/// Bytes of a value, where its shape is known. As a double: what is asked about may not fit an integer.
double bytes_of(const ValueInfo& info) {
    if (!info.dims) return 0;
    double bytes = static_cast<double>(bit_width(info.type)) / 8;
    for (const Dimension& dimension : *info.dims)
        bytes *= dimension.size ? static_cast<double>(*dimension.size) : 1;
    return bytes;
}

Error too_large(double bytes, double most, const std::string& what, std::string where) {
    return {ErrorCode::out_of_memory,
            what + " would take " + readable_bytes(bytes) + ", and " + readable_bytes(most) + " may be used",
            std::move(where), "if the model is right, use a smaller input shape or raise --memory-limit"};
}

/// How long Range becomes is in its numbers, which shape inference does not always follow.
Result<void> check_range(const Constants& constants, const Node& node) {
    if (!node.is("Range") || node.inputs.size() != 3) return {};
    double numbers[3];
    std::string begin;
    DataType type = DataType::undefined;
    for (std::size_t i = 0; i < 3; ++i) {
        const Tensor* given = constants.find(node.inputs[i]);
        if (given == nullptr || given->count() != 1) return {};
        type = given->type();
        const auto integers = given->to_int64s();
        const auto floats = integers.empty() ? given->to_floats() : std::vector<float>{};
        if (integers.empty() && floats.empty()) return {};
        if (i == 0 && !integers.empty()) begin = std::to_string(integers[0]);
        numbers[i] = integers.empty() ? static_cast<double>(floats[0]) : static_cast<double>(integers[0]);
    }
    if (numbers[2] == 0) return wrong(node, "a Range has steps of 0", "change the constant");
    const double span = numbers[1] - numbers[0];
    if (is_integer(type) && std::abs(span) > 9.2e18) { // who computes it in 64 bits makes something else of it
        return wrong(node, "a Range from " + begin + " has more numbers before its end than 64 bits count",
                     "change the constants");
    }
    const double bytes = span / numbers[2] * static_cast<double>(bit_width(type)) / 8;
    const auto limit = static_cast<double>(folding_limit(0));
    if (bytes > limit) return too_large(bytes, limit, "the Range", "node " + node.label());
    return {};
}

Result<void> check_nodes(const Graph& graph, std::int64_t opset) {
    const Constants constants(graph);
    for (const auto& node : graph.nodes) {
        if (!node->domain.empty()) continue;
        LATHE_CHECK(check_inputs(graph, *node, opset));
        LATHE_CHECK(check_division(constants, *node));
        LATHE_CHECK(check_range(constants, *node));
        LATHE_CHECK(check_axis(graph, constants, *node));
        LATHE_CHECK(check_indices(graph, constants, *node));
        LATHE_CHECK(check_top_k(graph, constants, *node));
        LATHE_CHECK(check_split(graph, constants, *node));
        LATHE_CHECK(check_sizes_given(constants, *node));
        LATHE_CHECK(check_slope(graph, *node));
        Result<void> inner;
        for_each_subgraph(*node, [&](const Graph& body) {
            if (inner) inner = check_nodes(body, opset);
        });
        LATHE_CHECK(inner);
    }
    return {};
}

/// Values of the whole graph; `model` has been through shape inference.
Result<void> check_sizes(const Model& model) {
    const Graph& graph = model.graph;
    const auto limit = static_cast<double>(memory_limit());
    for (const ValueInfo& input : graph.inputs) {
        if (const double bytes = bytes_of(input); bytes > limit)
            return too_large(bytes, limit, "the input", "input " + input.name);
    }
    std::unordered_set<std::string> fixed; // computed from constants alone
    double folded = 0;
    std::uint64_t weights = 0;
    for (const auto& [name, tensor] : graph.initializers)
        weights += tensor.bytes().size();
    const auto most_folded = static_cast<double>(folding_limit(weights));
    for (const auto& node : graph.nodes) {
        const bool constant = std::ranges::all_of(node->inputs, [&](const std::string& name) {
            return name.empty() || fixed.contains(name) || graph.constant(name) != nullptr;
        });
        for (const std::string& name : node->outputs) {
            if (name.empty()) continue;
            const auto info = graph.info(name);
            const double bytes = info ? bytes_of(*info) : 0;
            const std::string where = "node " + node->label() + ", output " + name;
            if (bytes > limit) return too_large(bytes, limit, "the result of " + node->op_type, where);
            if (!constant) continue;
            fixed.insert(name);
            folded += bytes;
            if (folded > most_folded) return too_large(folded, most_folded, "what is computed from constants", where);
        }
    }
    return {};
}

} // namespace

Result<void> check_preconditions(const Model& model) {
    LATHE_CHECK(check_nodes(model.graph, model.opset()));
    Model inferred = model; // shares the tensors
    // Where shapes contradict each other, whoever runs the model says so.
    if (!infer_shapes(inferred, {.discard_existing = true})) return {};
    LATHE_CHECK(check_sizes(inferred));
    return check_nodes(inferred.graph, model.opset()); // with ranks that the file does not tell
}

} // namespace lathe
