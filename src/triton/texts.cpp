#include "triton/texts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/text_dataset.hpp"
#include "data/text_pieces.hpp"

namespace lathe::triton {

Result<std::optional<TextStage>> TextStage::of(const Json& config, const EngineInfo& info) {
    const Json inputs = config.value("input", Json::array());
    if (info.tokenizer.empty() || !inputs.is_array() || inputs.size() != 1 ||
        inputs[0].value("data_type", Json()) != "TYPE_STRING")
        return std::optional<TextStage>();
    const auto refuse = [](const std::string& what, const std::string& hint) {
        return Error{ErrorCode::invalid_argument, what, "config.pbtxt: input", hint};
    };
    if (inputs[0].value("name", Json()) != input_name) {
        return refuse("the input of texts is called " + inputs[0].value("name", Json()).dump(),
                      "write name: \"" + std::string(input_name) + "\"");
    }
    constexpr std::array<std::string_view, 4> known{"input_ids", "attention_mask", "token_type_ids", "position_ids"};
    TextStage stage;
    for (const IoInfo& input : info.inputs) {
        const bool integers = input.type == DataType::int64 || input.type == DataType::int32;
        if (std::ranges::find(known, input.name) == known.end() || !integers || input.range.max.size() != 2) {
            return refuse("texts do not fill the engine's input " + input.name,
                          "write the engine's own inputs, or leave input out");
        }
        const auto most = static_cast<std::size_t>(input.range.max[1]);
        stage.inputs_.push_back({input.name, input.type, {-1, -1}});
        stage.least_ = std::max(stage.least_, static_cast<std::size_t>(input.range.min[1]));
        stage.limit_ = stage.limit_ == 0 ? most : std::min(stage.limit_, most);
    }
    return std::optional<TextStage>(std::move(stage));
}

Result<std::vector<HostTensor>> TextStage::tokens(const std::vector<std::string>& texts, Tokenizer& tokenizer) const {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (const auto at = first_not_utf8(texts[i]))
            return not_utf8(texts[i], *at, std::string(input_name) + " " + std::to_string(i));
    }
    LATHE_TRY(const Tokens tokens, tokenizer.encode(texts, {}));
    for (std::size_t row = 0; row < tokens.count; ++row) {
        const auto begin = tokens.mask.begin() + static_cast<std::ptrdiff_t>(row * tokens.length);
        const auto end = begin + static_cast<std::ptrdiff_t>(tokens.length);
        if (std::find(begin, end, 1) == end) {
            return Error{ErrorCode::invalid_argument, "the text has no tokens",
                         std::string(input_name) + " " + std::to_string(row), "leave empty texts out"};
        }
    }
    std::vector<HostTensor> made;
    for (const InputSpec& input : inputs_)
        made.push_back(token_tensor(input, tokens, least_, tokenizer));
    return made;
}

} // namespace lathe::triton
