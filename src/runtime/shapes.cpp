#include <algorithm>
#include <charconv>

#include "runtime/engine.hpp"

namespace lathe {

namespace {

Error bad_shape(std::string_view text, const std::string& why) {
    return {
        ErrorCode::invalid_argument, "shape \"" + std::string(text) + "\": " + why, "--shape",
        "write NAME:1x3x224x224, or NAME:MIN..OPT..MAX such as input:1x3x224x224..8x3x224x224..32x3x224x224 (a model "
        "of one input needs no name)"};
}

Result<Shape> parse_shape(std::string_view text, std::string_view whole) {
    Shape shape;
    constexpr std::size_t most_dims = 16;
    while (true) {
        const std::size_t end = std::min(text.find('x'), text.size());
        const std::string_view part = text.substr(0, end);
        std::int64_t size = 0;
        const auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), size);
        if (code != std::errc{} || stop != part.data() + part.size() || part.empty()) {
            return bad_shape(whole, "\"" + std::string(part) + "\" is not a size");
        }
        if (size < 1) return bad_shape(whole, "sizes must be 1 or more");
        shape.push_back(size);
        if (shape.size() > most_dims) return bad_shape(whole, "more than 16 dimensions");
        if (end == text.size()) break;
        text.remove_prefix(end + 1);
    }
    if (element_count(shape) < 0) return bad_shape(whole, "too large");
    return shape;
}

Error open_size(const ValueInfo& input, std::size_t axis) {
    const std::string& symbol = (*input.dims)[axis].symbol;
    return {ErrorCode::invalid_argument,
            "axis " + std::to_string(axis) + (symbol.empty() ? "" : " (\"" + symbol + "\")") +
                " of the input has no fixed size",
            input.name, "give its range with --shape " + input.name + ":MIN..OPT..MAX"};
}

/// Tokens a sample, at most, of a model that carries a tokenizer; 0 for others.
std::int64_t longest_text(const Model& model) {
    const std::string* text = model.find_metadata("lathe.tokenizer");
    if (text == nullptr) return 0;
    const auto json = parse_json(*text, "metadata lathe.tokenizer");
    if (!json || !json->is_object() || !json->value("max_length", Json()).is_number_integer()) return 0;
    return std::max<std::int64_t>(0, (*json)["max_length"].get<std::int64_t>());
}

std::size_t count_inputs(const Graph& graph) {
    return static_cast<std::size_t>(std::count_if(graph.inputs.begin(), graph.inputs.end(), [&](const auto& input) {
        return graph.initializer(input.name) == nullptr;
    }));
}

/// A convolution that reads the input as it is multiplies so many channels; nothing where they are the range's.
Result<void> check_channels(const Model& model, const ValueInfo& input, const ShapeRange& range) {
    if (range.min.size() < 3) return {};
    for (const auto& node : model.graph.nodes) {
        if (!node->is("Conv") || node->inputs.size() < 2 || node->input(0) != input.name) continue;
        const Tensor* filter = model.graph.constant(node->input(1));
        if (filter == nullptr || filter->shape().size() != range.min.size()) continue;
        const std::int64_t channels = filter->shape()[1] * std::max<std::int64_t>(1, node->int_or("group", 1));
        if (range.min[1] == channels && range.max[1] == channels) continue;
        return Error{ErrorCode::invalid_argument,
                     "shape range " + range.describe() + " has " + std::to_string(range.max[1]) +
                         " channels, and the filters of " + node->label() + " multiply " + std::to_string(channels),
                     input.name, "the model says " + to_string(input.shape().value_or(Shape{}))};
    }
    return {};
}

} // namespace

Result<std::pair<std::string, ShapeRange>> parse_shape_range(std::string_view text) {
    const std::size_t colon = text.rfind(':'); // input names may hold colons themselves
    if (colon == 0) return bad_shape(text, "no input name before a colon");
    const bool named = colon != std::string_view::npos;
    const std::string name(named ? text.substr(0, colon) : "");
    std::string_view rest = named ? text.substr(colon + 1) : text;
    std::vector<Shape> shapes;
    while (true) {
        const std::size_t end = std::min(rest.find(".."), rest.size());
        LATHE_TRY(Shape shape, parse_shape(rest.substr(0, end), text));
        shapes.push_back(std::move(shape));
        if (end == rest.size()) break;
        rest.remove_prefix(end + 2);
    }
    if (shapes.size() > 3) return bad_shape(text, "more than MIN..OPT..MAX");
    ShapeRange range{shapes.front(), shapes.size() == 3 ? shapes[1] : shapes.back(), shapes.back()};
    if (range.min.size() != range.max.size() || !range.contains(range.opt)) {
        return bad_shape(text, "not MIN <= OPT <= MAX in every size");
    }
    return std::pair{name, std::move(range)};
}

Result<std::map<std::string, ShapeRange>> complete_shapes(const Model& model,
                                                          const std::map<std::string, ShapeRange>& given) {
    std::map<std::string, ShapeRange> shapes;
    std::string names;
    const std::int64_t longest = longest_text(model);
    const bool single = count_inputs(model.graph) == 1;
    for (const auto& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        names += (names.empty() ? "" : ", ") + input.name;
        auto found = given.find(input.name);
        if (found == given.end() && single) found = given.find("");
        if (found != given.end()) {
            const ShapeRange& range = found->second;
            if (input.dims && range.min.size() != input.dims->size()) {
                return Error{ErrorCode::invalid_argument,
                             "shape range " + range.describe() + " has " + std::to_string(range.min.size()) +
                                 " dimensions, the input has " + std::to_string(input.dims->size()),
                             input.name, "the model says " + to_string(input.shape().value_or(Shape{}))};
            }
            LATHE_CHECK(check_channels(model, input, range));
            shapes.emplace(input.name, range);
            continue;
        }
        if (!input.dims) {
            return Error{ErrorCode::invalid_argument, "the model does not say how many dimensions the input has",
                         input.name, "give its shape with --shape " + input.name + ":SHAPE"};
        }
        ShapeRange range;
        for (std::size_t axis = 0; axis < input.dims->size(); ++axis) {
            const auto& size = (*input.dims)[axis].size;
            // A text's length: up to what the tokenizer gives, tuned for half a page.
            const bool tokens = !size && axis == 1 && longest > 0 && input.dims->size() == 2;
            if (!size && axis > 0 && !tokens) return open_size(input, axis);
            range.min.push_back(size.value_or(1));
            range.opt.push_back(tokens ? std::min<std::int64_t>(128, longest) : size.value_or(8));
            range.max.push_back(tokens ? longest : size.value_or(32));
        }
        shapes.emplace(input.name, std::move(range));
    }
    for (const auto& [name, range] : given) {
        if (shapes.contains(name)) continue;
        if (name.empty()) {
            if (single && given.size() == 1) continue;
            return Error{ErrorCode::invalid_argument,
                         single ? "two shapes for the model's only input, with its name and without"
                                : "a shape without an input's name fits models of one input alone",
                         "--shape", "write NAME:SHAPE; the model's inputs: " + names};
        }
        return Error{ErrorCode::invalid_argument, "the model has no input named \"" + name + "\"", "--shape",
                     "its inputs: " + names};
    }
    return shapes;
}

} // namespace lathe
