#include "runtime/reading.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace lathe {

Result<Reading> Reading::of(const EngineInfo& decoder, const EngineInfo* prefill) {
    Reading reading;
    LATHE_TRY(reading.decoder, Decoder::of(decoder));
    if (prefill != nullptr) {
        LATHE_TRY(reading.prefill, Prefill::of(*prefill, reading.decoder));
    }
    return reading;
}

std::int64_t Reading::at_once(std::int64_t prompt) const { return prefill ? std::min(prompt, prefill->most) : 0; }

std::int64_t Reading::filled(std::int64_t tokens) const {
    // A past of no tokens is one masked place: not every backend takes tensors without elements.
    return std::max({tokens, decoder.least, prefill ? prefill->least : std::int64_t{1}});
}

std::int64_t Reading::most_after(std::int64_t prompt) const {
    const std::int64_t first = at_once(prompt);
    // The last token of all is not read any more.
    const std::int64_t steps = std::max<std::int64_t>(0, decoder.most - filled(first) + 1);
    return steps - (prompt - first) + 1;
}

Result<void> Reading::check_tokens(std::span<const std::int64_t> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool known = tokens[i] >= 0 && (decoder.vocabulary == 0 || tokens[i] < decoder.vocabulary);
        if (known) continue;
        return Error{ErrorCode::invalid_argument,
                     std::to_string(tokens[i]) + " is not in the vocabulary of " + std::to_string(decoder.vocabulary) +
                         " tokens",
                     "input_ids " + std::to_string(i), ""};
    }
    return {};
}

Result<void> Reading::check_prompt(std::span<const std::int64_t> prompt) const {
    if (prompt.empty()) {
        return Error{ErrorCode::invalid_argument, "there is no token to go on from", "input_ids",
                     "give one at least, such as the token that begins texts"};
    }
    LATHE_CHECK(check_tokens(prompt));
    const auto count = static_cast<std::int64_t>(prompt.size());
    if (most_after(count) >= 1) return {};
    return Error{ErrorCode::out_of_range,
                 "a prompt of " + std::to_string(count) + " tokens is longer than the " +
                     std::to_string(count + most_after(count) - 1) + " that the engine takes",
                 "input_ids", "shorten it, or build the engine for a longer past (--shape)"};
}

Result<void> Reading::check_room(std::int64_t prompt, std::int64_t wanted) const {
    if (wanted < 1)
        return Error{ErrorCode::invalid_argument, "there are no tokens to make", "max_tokens", "ask for 1 or more"};
    const std::int64_t room = most_after(prompt);
    if (room < 1 || wanted <= room) return {}; // longer prompts are told by check_prompt
    return Error{ErrorCode::out_of_range,
                 std::to_string(wanted) + " tokens behind a prompt of " + std::to_string(prompt) +
                     " are more than the " + std::to_string(room) + " that the engine has room for",
                 "max_tokens", "ask for fewer, or build the engine for a longer past (--shape)"};
}

} // namespace lathe
