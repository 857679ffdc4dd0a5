#include "deploy/text_filling.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "support/json.hpp"

namespace lathe {

std::optional<TextFilling> text_filling_of(const EngineInfo& info) {
    if (info.tokenizer.empty()) return std::nullopt;
    const Json tokenizer = Json::parse(info.tokenizer, nullptr, false);
    if (!tokenizer.is_object()) return std::nullopt;
    TextFilling filling;
    filling.in_front = tokenizer.value("padding", Json("behind")) == "in front";
    const Json pad_id = tokenizer.value("pad_id", Json(0));
    const std::int64_t pad = pad_id.is_number_integer() ? pad_id.get<std::int64_t>() : 0;
    constexpr std::array<std::string_view, 3> known{"input_ids", "attention_mask", "token_type_ids"};
    bool masked = false;
    for (const IoInfo& input : info.inputs) {
        const bool integers = input.type == DataType::int64 || input.type == DataType::int32;
        const ShapeRange& range = input.range;
        if (std::ranges::find(known, input.name) == known.end() || !integers || range.max.size() != 2 ||
            range.min[1] == range.max[1])
            return std::nullopt; // what else the model reads may depend on the length
        masked = masked || input.name == "attention_mask";
        filling.values.emplace_back(input.name == "input_ids" ? pad : 0);
        filling.least = std::max(filling.least, range.min[1]);
        filling.most = range.max[1];
    }
    if (!masked) return std::nullopt; // the model would read what fills it up
    for (const IoInfo& output : info.outputs) {
        for (std::size_t axis = 2; axis < output.range.max.size(); ++axis)
            if (output.range.max[axis] < 0) return std::nullopt; // its own positions are not all in one axis
    }
    for (const auto& profile : info.profiles) {
        const auto found = profile.find(info.inputs.front().name);
        if (found != profile.end() && found->second.is_static() && found->second.max.size() == 2)
            filling.profiles.emplace_back(found->second.max[0], found->second.max[1]);
    }
    return filling;
}

} // namespace lathe
