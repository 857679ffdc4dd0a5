#include "runtime/decoder.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace lathe {

namespace {

constexpr std::string_view past_prefix = "past_key_values.";
constexpr std::string_view present_prefix = "present.";
constexpr const char* export_hint = "export one with lathe export gpt2 --phase prefill and --phase decode";

std::optional<std::size_t> find(const std::vector<IoInfo>& list, std::string_view name) {
    const auto found = std::ranges::find(list, name, &IoInfo::name);
    if (found == list.end()) return std::nullopt;
    return static_cast<std::size_t>(found - list.begin());
}

Error wrong(const std::string& what, const std::string& where, const std::string& hint = export_hint) {
    return {ErrorCode::invalid_argument, what, where, hint};
}

/// One sample fits.
bool takes_one(const ShapeRange& range, std::size_t rank) {
    return range.max.size() == rank && range.min[0] <= 1 && range.max[0] >= 1;
}

Result<std::size_t> tokens_input(const EngineInfo& info, const char* name) {
    const auto index = find(info.inputs, name);
    if (!index) return wrong("the engine has no such input, so it continues no text", name);
    const IoInfo& input = info.inputs[*index];
    if (input.type != DataType::int64 || !takes_one(input.range, 2)) {
        return wrong("the input is not int64 of [1, tokens]: " + to_string(input.type) + " " + input.range.describe(),
                     name, "build the engine with a --shape for one sample");
    }
    return *index;
}

/// All but keys and values.
Result<void> read_tensors(const EngineInfo& info, TokenReader& reader) {
    LATHE_TRY(reader.ids, tokens_input(info, "input_ids"));
    LATHE_TRY(reader.mask, tokens_input(info, "attention_mask"));
    if (find(info.inputs, "position_ids")) {
        LATHE_TRY(reader.positions, tokens_input(info, "position_ids"));
    }
    const auto logits = find(info.outputs, "logits");
    if (!logits) return wrong("the engine has no such output, so it scores no next token", "logits");
    const IoInfo& output = info.outputs[*logits];
    const std::size_t rank = output.range.max.size();
    if (output.type != DataType::float32 || (rank != 2 && rank != 3)) {
        return wrong("the output is not float32 of [1, vocabulary] or [1, tokens, vocabulary]: " +
                         to_string(output.type) + " " + output.range.describe(),
                     "logits");
    }
    reader.logits = *logits;
    reader.vocabulary = std::max<std::int64_t>(0, output.range.max.back());
    return {};
}

bool is_tokens(std::string_view name) {
    return name == "input_ids" || name == "attention_mask" || name == "position_ids";
}

} // namespace

bool Decoder::looks_like_one(const EngineInfo& info) {
    return std::ranges::any_of(info.inputs, [](const IoInfo& input) { return input.name.starts_with(past_prefix); });
}

Result<Decoder> Decoder::of(const EngineInfo& info) {
    Decoder decoder;
    LATHE_CHECK(read_tensors(info, decoder));
    for (const std::size_t one : {decoder.ids, decoder.positions.value_or(decoder.ids)}) {
        const IoInfo& input = info.inputs[one];
        if (input.range.min[1] > 1)
            return wrong("a decoder reads one token at a time: " + input.range.describe(), input.name);
    }
    // One more than the past: the token itself.
    decoder.least = std::max<std::int64_t>(0, info.inputs[decoder.mask].range.min[1] - 1);
    decoder.most = info.inputs[decoder.mask].range.max[1] - 1;
    for (std::size_t i = 0; i < info.inputs.size(); ++i) {
        const IoInfo& input = info.inputs[i];
        if (is_tokens(input.name)) continue;
        const ShapeRange& range = input.range;
        const bool known = input.name.starts_with(past_prefix) && takes_one(range, 4) && is_floating(input.type) &&
                           range.min[1] == range.max[1] && range.min[3] == range.max[3];
        if (!known) {
            return wrong("the input is neither tokens nor keys or values of a past, [1, heads, tokens, width]: " +
                             range.describe(),
                         input.name);
        }
        const std::string present = std::string(present_prefix) + input.name.substr(past_prefix.size());
        const auto output = find(info.outputs, present);
        if (!output || info.outputs[*output].type != input.type)
            return wrong("the engine does not give what its next run takes as " + input.name, present);
        decoder.past.push_back({present, i, *output, input.type, range.max[1], range.max[3]});
        decoder.least = std::max(decoder.least, range.min[2]);
        decoder.most = std::min(decoder.most, range.max[2]);
    }
    if (decoder.past.empty()) return wrong("the engine reads no keys and values of a past", info.name);
    if (decoder.most < std::max<std::int64_t>(1, decoder.least)) {
        return wrong("no past fits all of the engine's inputs", info.name,
                     "build it with --shape attention_mask one token longer than those of past_key_values");
    }
    return decoder;
}

Result<Prefill> Prefill::of(const EngineInfo& info, const Decoder& decoder) {
    Prefill prefill;
    LATHE_CHECK(read_tensors(info, prefill));
    prefill.most = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < info.inputs.size(); ++i) {
        const IoInfo& input = info.inputs[i];
        if (!is_tokens(input.name)) return wrong("a prompt does not fill the input", input.name);
        prefill.least = std::max(prefill.least, input.range.min[1]);
        prefill.most = std::min(prefill.most, input.range.max[1]);
    }
    if (prefill.most < prefill.least) return wrong("no length fits all of the engine's inputs", info.name);
    if (prefill.vocabulary != decoder.vocabulary) {
        return wrong("the two engines have vocabularies of " + std::to_string(prefill.vocabulary) + " and " +
                         std::to_string(decoder.vocabulary) + " tokens",
                     "logits", "export both from one model");
    }
    for (const PastTensor& wanted : decoder.past) {
        const auto output = find(info.outputs, wanted.name);
        if (!output) return wrong("the engine for prompts does not give what the decoder takes", wanted.name);
        const IoInfo& given = info.outputs[*output];
        const Shape& sizes = given.range.max;
        const auto same = [&](std::size_t axis, std::int64_t size) { return sizes[axis] < 0 || sizes[axis] == size; };
        if (given.type != wanted.type || sizes.size() != 4 || !same(1, wanted.heads) || !same(3, wanted.width)) {
            return wrong("the engine for prompts gives " + to_string(given.type) + " " + to_string(sizes) +
                             ", and the decoder takes " + to_string(wanted.type) + " of " +
                             std::to_string(wanted.heads) + " heads of " + std::to_string(wanted.width),
                         wanted.name, "export both from one model, and build both in one precision");
        }
        PastTensor tensor = wanted;
        tensor.output = *output;
        prefill.past.push_back(std::move(tensor));
    }
    return prefill;
}

} // namespace lathe
