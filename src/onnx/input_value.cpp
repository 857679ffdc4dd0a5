#include "onnx/input_value.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnx.hpp"

namespace lathe {
namespace {

template <class T>
std::optional<T> number_from(std::string_view text) {
    T value{};
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    return value;
}

/// The bytes of one element; nothing where the text is no such number or the type is not one of numbers.
std::optional<std::vector<std::byte>> element_from(DataType type, std::string_view text) {
    const auto bytes = [&]<class T>(std::optional<T> value) -> std::optional<std::vector<std::byte>> {
        if (!value) return std::nullopt;
        std::vector<std::byte> made(sizeof(T));
        std::memcpy(made.data(), &*value, sizeof(T));
        return made;
    };
    switch (type) {
        case DataType::float32: return bytes(number_from<float>(text));
        case DataType::float64: return bytes(number_from<double>(text));
        case DataType::int8: return bytes(number_from<std::int8_t>(text));
        case DataType::uint8: return bytes(number_from<std::uint8_t>(text));
        case DataType::int16: return bytes(number_from<std::int16_t>(text));
        case DataType::uint16: return bytes(number_from<std::uint16_t>(text));
        case DataType::int32: return bytes(number_from<std::int32_t>(text));
        case DataType::uint32: return bytes(number_from<std::uint32_t>(text));
        case DataType::int64: return bytes(number_from<std::int64_t>(text));
        case DataType::uint64: return bytes(number_from<std::uint64_t>(text));
        case DataType::boolean:
            if (text == "true" || text == "1") return std::vector<std::byte>{std::byte{1}};
            if (text == "false" || text == "0") return std::vector<std::byte>{std::byte{0}};
            return std::nullopt;
        default: return std::nullopt;
    }
}

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = std::min(text.find(','), text.size());
        parts.push_back(text.substr(0, end));
        if (end == text.size()) return parts;
        text.remove_prefix(end + 1);
    }
}

Result<Tensor> value_of(const ValueInfo& input, std::string_view text) {
    const auto shape = input.shape();
    if (!shape || std::ranges::any_of(*shape, [](std::int64_t size) { return size < 0; })) {
        return Error{ErrorCode::unsupported, "the input has open sizes, so a constant has none either", input.name,
                     "fix them first: --shape " + input.name + ":SIZES"};
    }
    constexpr std::int64_t most = 1'000'000; // one value for all of them
    const std::int64_t count = element_count(*shape);
    const auto parts = split(text);
    if (count < 0 || count > most || (parts.size() != 1 && static_cast<std::int64_t>(parts.size()) != count)) {
        return Error{ErrorCode::invalid_argument,
                     "the input has " + (count < 0 ? "too many" : std::to_string(count)) + " elements, " +
                         std::to_string(parts.size()) + " were given",
                     input.name, "give one value for all of them, or as many as it has, separated by commas"};
    }
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::string_view part = parts[parts.size() == 1 ? 0 : static_cast<std::size_t>(i)];
        const auto element = element_from(input.type, part);
        if (!element) {
            return Error{ErrorCode::invalid_argument,
                         "no element of type " + to_string(input.type) + ": " + std::string(part), input.name,
                         "give a number, or true or false for a bool, such as rate=16000"};
        }
        bytes.insert(bytes.end(), element->begin(), element->end());
    }
    return Tensor(input.name, input.type, *shape, bytes);
}

} // namespace

Result<void> set_input_constants(Model& model, const std::vector<std::string>& constants) {
    Model changed = model;
    Graph& graph = changed.graph;
    for (const std::string& text : constants) {
        const std::size_t equals = text.rfind('=');
        if (equals == std::string::npos || equals == 0) {
            return Error{ErrorCode::invalid_argument, "no INPUT=VALUE: " + text, "", "such as rate=16000"};
        }
        const std::string name = text.substr(0, equals);
        const auto input = std::ranges::find_if(graph.inputs, [&](const ValueInfo& each) { return each.name == name; });
        if (input == graph.inputs.end()) {
            std::string names;
            for (const ValueInfo& each : graph.inputs)
                names += (names.empty() ? "" : ", ") + each.name;
            return Error{ErrorCode::invalid_argument, "the model has no input " + name, text,
                         "its inputs are " + names};
        }
        LATHE_TRY(Tensor value, value_of(*input, std::string_view(text).substr(equals + 1)));
        graph.inputs.erase(input);
        graph.initializers.insert_or_assign(name, std::move(value));
    }
    LATHE_CHECK(infer_shapes(changed, {true, false}));
    model = std::move(changed);
    return {};
}

} // namespace lathe
