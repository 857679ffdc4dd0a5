#pragma once

// Requests for a text's continuation, as a config says them: tokens or a text in, a token an answer. Knows neither
// server nor session.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "runtime/generator.hpp"
#include "support/json.hpp"
#include "triton/batch.hpp"

namespace lathe::triton {

/// What a request asks for.
struct GenerationRequest {
    std::vector<std::int64_t> prompt;
    std::optional<std::string> text; ///< to be cut into the prompt's tokens; then `prompt` is empty
    GenerationLimits limits;
    Sampling sampling;
};

/// Continues texts, with one answer a token.
class GenerationStage {
public:
    /// An input that a request may have, of one element but `input_ids`.
    struct Field {
        std::string_view name;
        std::string_view type; ///< as config.pbtxt writes it
        bool needed;
    };
    static constexpr std::array<Field, 7> fields{{{"text", "TYPE_STRING", false},
                                                  {"input_ids", "TYPE_INT64", false},
                                                  {"max_tokens", "TYPE_INT32", true},
                                                  {"eos", "TYPE_INT64", false},
                                                  {"temperature", "TYPE_FP32", false},
                                                  {"top_k", "TYPE_INT32", false},
                                                  {"seed", "TYPE_INT64", false}}};
    static constexpr const char* output_name = "token"; ///< int64 of [1]
    /// TYPE_STRING of [1]: what the text is longer by with the token (TextWriter).
    static constexpr const char* text_output_name = "text";

    /// Of a model whose config says decoupled: true; nothing for others. `prefill`, which reads prompts at once, may be
    /// null. Errors: invalid_argument (engines that continue no text; inputs and outputs other than the above).
    static Result<std::optional<GenerationStage>> of(const Json& config, const EngineInfo& decoder,
                                                     const EngineInfo* prefill);

    /// Requests may be texts.
    bool takes_texts() const { return takes_texts_; }
    /// Answers have the output `text`.
    bool gives_texts() const { return gives_texts_; }
    /// A request from the inputs that it has, by name. Errors: invalid_argument, parse_error (a text that is not
    /// UTF-8), naming the input.
    Result<GenerationRequest> request(const std::map<std::string, InputPieces>& given) const;

private:
    bool takes_texts_ = false;
    bool gives_texts_ = false;
};

} // namespace lathe::triton
