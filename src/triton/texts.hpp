#pragma once

// Texts in a request, turned into the network's tokens here: no client needs the model's tokenizer.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/tokenizer.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe::triton {

/// Cuts texts into tokens as `lathe run` does.
class TextStage {
public:
    /// The name that the input of texts has in a config.
    static constexpr const char* input_name = "text";

    /// Of a model whose config gives one input, `text` of TYPE_STRING with dims [1], while the engine's are tokens;
    /// nothing for others. Errors: invalid_argument (an engine that texts do not fill).
    static Result<std::optional<TextStage>> of(const Json& config, const EngineInfo& info);

    /// The most tokens that the engine takes.
    std::size_t limit() const { return limit_; }
    /// The engine's inputs of one request, [texts, length] each; the length is the longest text's, or the engine's
    /// least. Errors: parse_error (a text that is not UTF-8, by its number), invalid_argument (one without tokens).
    Result<std::vector<HostTensor>> tokens(const std::vector<std::string>& texts, Tokenizer& tokenizer) const;

private:
    std::vector<InputSpec> inputs_;
    std::size_t least_ = 1;
    std::size_t limit_ = 0;
};

} // namespace lathe::triton
