#include "triton/generation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/detokenizer.hpp"
#include "data/text_pieces.hpp"
#include "runtime/decoder.hpp"
#include "triton/config_fields.hpp"
#include "triton/pictures.hpp"

namespace lathe::triton {

namespace {

Error wrong_config(const std::string& field, const std::string& what) {
    return {ErrorCode::invalid_argument, what, "config.pbtxt: " + field,
            "lathe deploy triton DECODER.engine --generate writes such a config"};
}

Error wrong_input(const std::string& name, const std::string& what, const std::string& hint = "") {
    return {ErrorCode::invalid_argument, what, name, hint};
}

bool is_decoupled(const Json& config) {
    const auto policy = config.find("model_transaction_policy");
    return policy != config.end() && policy->is_object() && policy->value("decoupled", Json()) == true;
}

std::vector<std::byte> joined(const InputPieces& input) {
    std::vector<std::byte> bytes;
    for (const auto& piece : input.pieces)
        bytes.insert(bytes.end(), piece.begin(), piece.end());
    return bytes;
}

template <class T>
Result<std::vector<T>> numbers(const std::string& name, const InputPieces& input) {
    const std::vector<std::byte> bytes = joined(input);
    const std::int64_t count = element_count(input.shape);
    if (count < 0 || bytes.size() != static_cast<std::size_t>(count) * sizeof(T)) {
        return wrong_input(name, "the input holds " + std::to_string(bytes.size()) + " bytes, not what shape " +
                                     to_string(input.shape) + " takes");
    }
    std::vector<T> values(static_cast<std::size_t>(count));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// The one number of an input that may be missing.
template <class T>
Result<std::optional<T>> number(const std::map<std::string, InputPieces>& given, const std::string& name) {
    const auto found = given.find(name);
    if (found == given.end()) return std::optional<T>();
    LATHE_TRY(const std::vector<T> values, numbers<T>(name, found->second));
    if (values.size() != 1)
        return wrong_input(name, "this is one number, and " + std::to_string(values.size()) + " were sent");
    return std::optional<T>(values[0]);
}

Result<std::string> text_of(const InputPieces& input) {
    const std::vector<std::byte> bytes = joined(input);
    LATHE_TRY(const auto strings, split_strings(bytes, 1));
    std::string text(reinterpret_cast<const char*>(strings[0].data()), strings[0].size());
    if (const auto at = first_not_utf8(text)) return not_utf8(text, *at, "text");
    return text;
}

} // namespace

Result<std::optional<GenerationStage>> GenerationStage::of(const Json& config, const EngineInfo& decoder,
                                                           const EngineInfo* prefill) {
    if (!is_decoupled(config)) return std::optional<GenerationStage>();
    LATHE_TRY(const Decoder checked, Decoder::of(decoder));
    if (prefill != nullptr) LATHE_CHECK(Prefill::of(*prefill, checked));
    const Json batch = config.value("max_batch_size", Json(0));
    if (batch != 0 && batch != "0")
        return wrong_config("max_batch_size", "texts are continued one by one, and max_batch_size is " + batch.dump());
    GenerationStage stage;
    bool has_ids = false;
    std::size_t needed = 0;
    for (const Json& tensor : list_at(config, "input")) {
        const std::string name = text_at(tensor, "name");
        const auto* const field = std::ranges::find(fields, name, &Field::name);
        if (field == fields.end()) {
            std::string names;
            for (const Field& each : fields)
                names += (names.empty() ? "" : ", ") + std::string(each.name);
            return wrong_config("input \"" + name + "\"", "texts are continued from " + names + " alone");
        }
        if (text_at(tensor, "data_type") != field->type)
            return wrong_config("input \"" + name + "\"",
                                "data_type is " + text_at(tensor, "data_type") + ", not " + std::string(field->type));
        has_ids = has_ids || name == "input_ids";
        stage.takes_texts_ = stage.takes_texts_ || name == "text";
        needed += field->needed ? 1 : 0;
    }
    if (needed != 1 || (!has_ids && !stage.takes_texts_))
        return wrong_config("input", "max_tokens is missing, or input_ids and text both are");
    const std::string& tokenizer =
        decoder.tokenizer.empty() && prefill != nullptr ? prefill->tokenizer : decoder.tokenizer;
    if (stage.takes_texts_ && tokenizer.empty())
        return wrong_config("input \"text\"", "no engine of the model carries a tokenizer");
    bool gives_tokens = false;
    for (const Json& output : list_at(config, "output")) {
        const std::string name = text_at(output, "name");
        const std::string type = text_at(output, "data_type");
        gives_tokens = gives_tokens || (name == output_name && type == "TYPE_INT64");
        stage.gives_texts_ = stage.gives_texts_ || (name == text_output_name && type == "TYPE_STRING");
        if ((name == output_name && type == "TYPE_INT64") || (name == text_output_name && type == "TYPE_STRING"))
            continue;
        return wrong_config("output \"" + name + "\"",
                            "the outputs are token, of TYPE_INT64, and text, of TYPE_STRING");
    }
    if (!gives_tokens) return wrong_config("output", "the output token, of TYPE_INT64, is missing");
    if (stage.gives_texts_) LATHE_CHECK(Detokenizer::of(tokenizer));
    return std::optional<GenerationStage>(stage);
}

Result<GenerationRequest> GenerationStage::request(const std::map<std::string, InputPieces>& given) const {
    GenerationRequest request;
    const auto ids = given.find("input_ids");
    const auto text = given.find("text");
    if ((ids == given.end()) == (text == given.end())) {
        return wrong_input(takes_texts_ ? "input_ids, text" : "input_ids",
                           ids == given.end() ? "there is no prompt" : "there are two prompts",
                           takes_texts_ ? "send one of input_ids and text" : "send input_ids");
    }
    if (ids != given.end()) {
        if (ids->second.shape.size() != 1 && !(ids->second.shape.size() == 2 && ids->second.shape[0] == 1)) {
            return wrong_input("input_ids",
                               "a prompt is a row of tokens, and this has the shape " + to_string(ids->second.shape));
        }
        LATHE_TRY(request.prompt, numbers<std::int64_t>("input_ids", ids->second));
    } else {
        LATHE_TRY(request.text, text_of(text->second));
    }
    LATHE_TRY(const auto most, number<std::int32_t>(given, "max_tokens"));
    if (!most || *most < 1) {
        return wrong_input("max_tokens",
                           most ? std::to_string(*most) + " tokens cannot be made" : "the input is missing",
                           "send 1 or more");
    }
    request.limits.most = *most;
    LATHE_TRY(request.limits.end, number<std::int64_t>(given, "eos"));
    LATHE_TRY(const auto temperature, number<float>(given, "temperature"));
    if (temperature && !(std::isfinite(*temperature) && *temperature >= 0))
        return wrong_input("temperature", "this is no temperature", "send 0 (the likeliest token) or more");
    LATHE_TRY(const auto top_k, number<std::int32_t>(given, "top_k"));
    if (top_k && *top_k < 0) return wrong_input("top_k", "less than no token can be chosen from", "send 0 for all");
    LATHE_TRY(const auto seed, number<std::int64_t>(given, "seed"));
    request.sampling.temperature = temperature.value_or(0);
    request.sampling.top_k = static_cast<std::size_t>(top_k.value_or(0));
    request.sampling.seed = static_cast<std::uint64_t>(seed.value_or(0));
    return request;
}

} // namespace lathe::triton
