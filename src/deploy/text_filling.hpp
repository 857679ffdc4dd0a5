#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/engine.hpp"

namespace lathe {

/// How texts of different lengths share a run: inputs of [samples, length] are filled up to one length.
struct TextFilling {
    std::vector<std::optional<std::int64_t>> values; ///< by input, what fills it; nothing: it is not filled
    bool in_front = false;                           ///< for models that continue a text
    std::int64_t least = 1;                          ///< lengths that the engine takes
    std::int64_t most = 1;
    /// Samples and length of the engine's profiles of one shape: a run that one of them holds with the same samples is
    /// filled up to it.
    std::vector<std::pair<std::int64_t, std::int64_t>> profiles;
};

/// That of an engine whose inputs are tokens: they have the names of Hugging Face's encoders, an attention mask among
/// them, and are [samples, length] with open lengths, and the engine carries its tokenizer. Nothing for others.
std::optional<TextFilling> text_filling_of(const EngineInfo& info);

} // namespace lathe
