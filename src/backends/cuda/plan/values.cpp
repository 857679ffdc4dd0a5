#include "backends/cuda/plan/values.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/subgraphs.hpp"
#include "support/half.hpp"

namespace lathe::cuda {
namespace {

using Positions = std::vector<std::size_t>;
using Table = std::unordered_map<std::string_view, Positions>;

/// Operands that decide the shape of a result or what is done, of integers and truth values.
const Table& deciding_operands() {
    static const Table table{{"Reshape", {1}},
                             {"Expand", {1}},
                             {"Tile", {1}},
                             {"ConstantOfShape", {0}},
                             {"Slice", {1, 2, 3, 4}},
                             {"Pad", {1, 3}},
                             {"Unsqueeze", {1}},
                             {"Squeeze", {1}},
                             {"Split", {1}},
                             {"ReduceSum", {1}},
                             {"ReduceMean", {1}},
                             {"ReduceMax", {1}},
                             {"ReduceMin", {1}},
                             {"ReduceProd", {1}},
                             {"ReduceL1", {1}},
                             {"ReduceL2", {1}},
                             {"ReduceLogSum", {1}},
                             {"ReduceLogSumExp", {1}},
                             {"ReduceSumSquare", {1}},
                             {"TopK", {1}},
                             {"OneHot", {1}},
                             {"CumSum", {1}},
                             {"Trilu", {1}},
                             {"Resize", {3}},
                             {"AffineGrid", {1}},
                             {"Col2Im", {1, 2}},
                             {"CenterCropPad", {1}},
                             {"MaxUnpool", {2}},
                             {"HannWindow", {0}},
                             {"HammingWindow", {0}},
                             {"BlackmanWindow", {0}},
                             {"Range", {0, 1, 2}},
                             {"If", {0}},
                             {"Loop", {0, 1}},
                             {"NonMaxSuppression", {2}},
                             {"DFT", {1, 2}},
                             {"STFT", {1, 3}},
                             {"MelWeightMatrix", {0, 1, 2}}};
    return table;
}
/// The same of floats.
const Table& deciding_floats() {
    static const Table table{{"Resize", {1, 2}},
                             {"Upsample", {1}},
                             {"Range", {0, 1, 2}},
                             {"NonMaxSuppression", {3, 4}},
                             {"MelWeightMatrix", {3, 4}}};
    return table;
}

void collect(const Graph& graph, const Table& table, std::unordered_set<std::string>& found) {
    for (const auto& node : graph.nodes) {
        for_each_subgraph(*node, [&](const Graph& inner) { collect(inner, table, found); });
        const auto entry = node->domain.empty() ? table.find(node->op_type) : table.end();
        if (entry == table.end()) continue;
        for (const std::size_t at : entry->second)
            if (!node->input(at).empty()) found.insert(node->input(at));
    }
}

/// Whatever the values in `found` are computed from, but for shapes, joins them.
void trace_back(const Graph& graph, std::unordered_set<std::string>& found) {
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        const Node& node = *graph.nodes[i];
        for_each_subgraph(node, [&](const Graph& inner) { trace_back(inner, found); });
        const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [&](const std::string& name) { return found.contains(name); });
        if (!wanted || node.is("Shape") || node.is("Size")) continue;
        found.insert(node.inputs.begin(), node.inputs.end());
        for (const std::string& name : captured_names(node))
            found.insert(name);
    }
}

bool of_integers(DataType type) {
    return type == DataType::int64 || type == DataType::int32 || type == DataType::boolean;
}
bool of_floats(DataType type) {
    return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16;
}

template <class T>
std::optional<std::vector<T>> numbers(std::string_view text) {
    std::vector<T> found;
    if (text.ends_with(',')) return std::nullopt;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view part = text.substr(0, comma);
        T value{};
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
        if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
        found.push_back(value);
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return found;
}

template <class To, class From, class Convert>
Tensor converted(const std::string& name, DataType type, const Shape& shape, const std::vector<From>& values,
                 Convert convert) {
    std::vector<To> made;
    made.reserve(values.size());
    for (const From value : values)
        made.push_back(convert(value));
    return Tensor::of(name, type, shape, std::span<const To>(made));
}

std::optional<Tensor> tensor_of(const std::string& name, DataType type, const Shape& shape, const std::string& text) {
    const auto count = static_cast<std::size_t>(element_count(shape));
    if (of_integers(type)) {
        const auto values = numbers<std::int64_t>(text);
        if (!values || values->size() != count) return std::nullopt;
        const auto fits = [&](std::int64_t low, std::int64_t high) {
            return std::all_of(values->begin(), values->end(), [&](auto v) { return v >= low && v <= high; });
        };
        if (type == DataType::int64) return Tensor::of_int64s(name, shape, *values);
        if (type == DataType::int32) {
            if (!fits(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()))
                return std::nullopt;
            return converted<std::int32_t>(name, type, shape, *values,
                                           [](std::int64_t v) { return static_cast<std::int32_t>(v); });
        }
        if (!fits(0, 1)) return std::nullopt;
        return converted<std::uint8_t>(name, type, shape, *values,
                                       [](std::int64_t v) { return static_cast<std::uint8_t>(v); });
    }
    if (!of_floats(type)) return std::nullopt;
    const auto values = numbers<float>(text);
    if (!values || values->size() != count) return std::nullopt;
    if (type == DataType::float32) return Tensor::of_floats(name, shape, *values);
    const bool half = type == DataType::float16;
    return converted<std::uint16_t>(name, type, shape, *values, [&](float v) {
        return static_cast<std::uint16_t>(half ? half_from_float(v) : bfloat16_from_float(v));
    });
}

} // namespace

std::vector<std::string> deciding_inputs(const Graph& graph) {
    std::unordered_set<std::string> integers, floats;
    collect(graph, deciding_operands(), integers);
    trace_back(graph, integers);
    collect(graph, deciding_floats(), floats);
    trace_back(graph, floats);
    std::vector<std::string> names;
    for (const ValueInfo& input : graph.inputs) {
        const bool decides = (of_integers(input.type) && integers.contains(input.name)) ||
                             ((of_floats(input.type) || of_integers(input.type)) && floats.contains(input.name));
        if (!decides || !input.dims || input.dims->size() > 1) continue;
        if (!input.dims->empty() && input.dims->front().size.value_or(1) > most_values) continue;
        names.push_back(input.name);
    }
    return names;
}

std::string value_text(const Tensor& tensor) {
    std::string text;
    if (of_integers(tensor.type())) {
        for (const std::int64_t value : tensor.to_int64s())
            text += (text.empty() ? "" : ",") + std::to_string(value);
    } else if (of_floats(tensor.type())) {
        for (const float value : tensor.to_floats()) {
            char digits[32];
            std::snprintf(digits, sizeof digits, "%.9g", static_cast<double>(value));
            text += (text.empty() ? "" : ",") + std::string(digits);
        }
    }
    return text;
}

void set_values(Model& model, const InputValues& values) {
    for (const auto& [name, text] : values)
        model.set_metadata(value_prefix + name, text);
}

Result<void> apply_values(Model& model) {
    Graph& graph = model.graph;
    for (const ValueInfo& input : graph.inputs) {
        const std::string* text = model.find_metadata(value_prefix + input.name);
        const auto shape = input.shape();
        if (text == nullptr || !shape) continue;
        const std::string fixed = graph.unique_name(input.name + "_value");
        auto tensor = tensor_of(fixed, input.type, *shape, *text);
        if (!tensor) {
            return Error{ErrorCode::invalid_argument,
                         "its value \"" + *text + "\" is not " + lathe::to_string(*shape) + " of " +
                             lathe::to_string(input.type),
                         input.name,
                         std::string("give as many numbers, with commas, under ") + value_prefix + input.name +
                             " in the model's metadata"};
        }
        graph.initializers.emplace(fixed, std::move(*tensor));
        graph.replace_uses(input.name, fixed);
    }
    return {};
}

} // namespace lathe::cuda
