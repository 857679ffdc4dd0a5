// Giving a model's inputs fixed sizes where they are open.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "onnx/onnx.hpp"

namespace lathe {
namespace {

/// A size an axis; empty: as it is.
using Sizes = std::vector<std::optional<std::int64_t>>;

Result<Sizes> parse_sizes(std::string_view text) {
    const Error wrong{ErrorCode::invalid_argument, "no shape: " + std::string(text), "",
                      "give a size or ? an axis, such as ids:?x128"};
    Sizes sizes;
    for (std::string_view rest = text;;) {
        const std::size_t end = std::min(rest.find('x'), rest.size());
        const std::string_view part = rest.substr(0, end);
        if (part == "?") {
            sizes.emplace_back();
        } else {
            std::int64_t size = 0;
            const auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), size);
            if (code != std::errc() || stop != part.data() + part.size() || size < 1) return wrong;
            sizes.emplace_back(size);
        }
        if (end == rest.size()) return sizes;
        rest.remove_prefix(end + 1);
    }
}

std::string inputs_of(const std::vector<ValueInfo*>& inputs) {
    std::string names;
    for (const ValueInfo* input : inputs)
        names += (names.empty() ? "" : ", ") + input->name;
    return names;
}

/// Sets one input's open axes; sizes of axes with a name are put into `named`.
Result<void> fix_axes(ValueInfo& input, const Sizes& sizes, std::map<std::string, std::int64_t>& named) {
    if (!input.dims || input.dims->size() != sizes.size()) {
        return Error{ErrorCode::invalid_argument,
                     "the input has " + (input.dims ? std::to_string(input.dims->size()) : "an unknown number of") +
                         " axes, " + std::to_string(sizes.size()) + " were given",
                     input.name, "give as many sizes as the input has axes (lathe inspect shows them)"};
    }
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
        Dimension& dimension = (*input.dims)[axis];
        if (!sizes[axis] || dimension.size == sizes[axis]) continue;
        if (dimension.size) {
            return Error{ErrorCode::unsupported,
                         "axis " + std::to_string(axis) + " is " + std::to_string(*dimension.size) +
                             " in the model, and " + std::to_string(*sizes[axis]) + " was given",
                         input.name, "only open sizes can be fixed; export the model with that size"};
        }
        if (!dimension.symbol.empty()) {
            const auto [known, is_new] = named.emplace(dimension.symbol, *sizes[axis]);
            if (!is_new && known->second != *sizes[axis]) {
                return Error{ErrorCode::invalid_argument,
                             "the size " + dimension.symbol + " is given as " + std::to_string(known->second) +
                                 " and as " + std::to_string(*sizes[axis]),
                             input.name, "give one of them"};
            }
        }
        dimension = Dimension::of(*sizes[axis]);
    }
    return {};
}

/// Whether a symbol is a formula of the name, as PyTorch writes those of outputs: "floor(height/8) + 1".
bool mentions(const std::string& symbol, const std::string& name) {
    const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    for (std::size_t at = symbol.find(name); at != std::string::npos; at = symbol.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if ((at == 0 || !in_word(symbol[at - 1])) && (end == symbol.size() || !in_word(symbol[end]))) return true;
    }
    return false;
}

/// A size of one name is the same everywhere; what was computed from it is to be found anew.
void set_named_sizes(Graph& graph, const std::map<std::string, std::int64_t>& named) {
    for (auto* values : {&graph.inputs, &graph.outputs}) {
        for (ValueInfo& value : *values) {
            if (!value.dims || graph.initializers.contains(value.name)) continue;
            for (Dimension& dimension : *value.dims) {
                const auto known = dimension.size ? named.end() : named.find(dimension.symbol);
                if (known != named.end()) {
                    dimension = Dimension::of(known->second);
                } else if (std::ranges::any_of(named, [&](const auto& each) {
                               return !each.first.empty() && mentions(dimension.symbol, each.first);
                           })) {
                    dimension = Dimension{};
                }
            }
        }
    }
}

} // namespace

Result<void> set_input_shapes(Model& model, const std::vector<std::string>& shapes) {
    Model changed = model;
    std::vector<ValueInfo*> inputs;
    for (ValueInfo& input : changed.graph.inputs) {
        if (!changed.graph.initializers.contains(input.name)) inputs.push_back(&input);
    }
    std::map<std::string, std::int64_t> named;
    for (const std::string& text : shapes) {
        const std::size_t colon = text.rfind(':');
        const std::string name = colon == std::string::npos ? "" : text.substr(0, colon);
        LATHE_TRY(const Sizes sizes, parse_sizes(std::string_view(text).substr(name.empty() ? 0 : colon + 1)));
        const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const ValueInfo* input) {
            return name.empty() ? inputs.size() == 1 : input->name == name;
        });
        if (found == inputs.end()) {
            return Error{ErrorCode::invalid_argument,
                         name.empty() ? "the model has several inputs, and the shape names none"
                                      : "the model has no input " + name,
                         text, "its inputs are " + inputs_of(inputs)};
        }
        LATHE_CHECK(fix_axes(**found, sizes, named));
    }
    set_named_sizes(changed.graph, named);
    LATHE_CHECK(infer_shapes(changed, {true, false}));
    model = std::move(changed);
    return {};
}

} // namespace lathe
