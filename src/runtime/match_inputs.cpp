#include "runtime/match_inputs.hpp"

#include <algorithm>

namespace lathe {

namespace {

Result<std::size_t> index_for(const std::vector<IoInfo>& inputs, const TensorView& view, std::size_t place) {
    if (view.name.empty() || view.name == inputs[place].name) return place;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].name == view.name) return i;
    }
    std::string names;
    for (const auto& input : inputs)
        names += (names.empty() ? "" : ", ") + input.name;
    return Error{ErrorCode::invalid_argument, "the engine has no input named \"" + view.name + "\"", "",
                 "its inputs: " + names};
}

} // namespace

Result<std::vector<std::size_t>> match_inputs(const std::vector<IoInfo>& inputs, std::span<const TensorView> views) {
    if (views.size() != inputs.size()) {
        return Error{ErrorCode::invalid_argument,
                     "the engine has " + std::to_string(inputs.size()) + " inputs, " + std::to_string(views.size()) +
                         " were given",
                     "", ""};
    }
    std::vector<std::size_t> indices;
    indices.reserve(views.size());
    for (std::size_t place = 0; place < views.size(); ++place) {
        LATHE_TRY(const std::size_t index, index_for(inputs, views[place], place));
        if (std::ranges::find(indices, index) != indices.end()) {
            return Error{ErrorCode::invalid_argument, "input given twice", inputs[index].name, ""};
        }
        indices.push_back(index);
    }
    return indices;
}

} // namespace lathe
